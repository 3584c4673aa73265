#include "cc/core/host_ranks/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace tf_booster {
namespace {

Status Failed(StatusCode code, const std::string& what) {
  return Status(code, "SharedMemory: " + what + ": " + std::strerror(errno));
}

}  // namespace

MappedPart& MappedPart::operator=(MappedPart&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(offset_, other.offset_);
  std::swap(size_, other.size_);
  return *this;
}

MappedPart::~MappedPart() {
  if (data_ != nullptr) munmap(data_, size_);
}

Status SharedMemory::Create(std::unique_ptr<SharedMemory>* memory) {
  // Not shm_open: a container's /dev/shm has 64 MB, and a file there outlives a killed process.
  const int file = memfd_create("tf_booster_rank", MFD_CLOEXEC);
  if (file < 0) return Failed(StatusCode::kResourceExhausted, "memfd_create");
  memory->reset(new SharedMemory(file, getpid()));
  return Status();
}

std::string SharedMemory::address() const {
  struct stat found = {};
  fstat(file_, &found);
  return std::to_string(process_) + ":" + std::to_string(file_) + ":" + std::to_string(found.st_dev) + ":" +
         std::to_string(found.st_ino);
}

Status SharedMemory::Open(const std::string& address, std::unique_ptr<SharedMemory>* memory) {
  int process = 0, number = 0;
  unsigned long long device = 0, node = 0;
  if (std::sscanf(address.c_str(), "%d:%d:%llu:%llu", &process, &number, &device, &node) != 4) {
    return Status(StatusCode::kInvalidArgument, "SharedMemory: '" + address + "' is no address");
  }
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return Failed(StatusCode::kNotFound, path);
  memory->reset(new SharedMemory(file, process));
  struct stat found = {};
  // In another container, processes of the same numbers may be other ones.
  if (fstat(file, &found) != 0 || found.st_dev != device || found.st_ino != node) {
    return Status(StatusCode::kNotFound, "SharedMemory: " + path + " is another file; ranks are in containers apart");
  }
  return Status();
}

SharedMemory::~SharedMemory() { close(file_); }

Status SharedMemory::Append(int64_t size, MappedPart* part) {
  // Unlike ftruncate, this takes the memory: its lack is an error here and not a SIGBUS at the first write.
  const int error = posix_fallocate(file_, end_, size);
  if (error != 0) {
    return Status(StatusCode::kResourceExhausted,
                  "SharedMemory: no " + std::to_string(size) +
                      " bytes of memory for messages between ranks: " + std::strerror(error));
  }
  TFB_RETURN_IF_ERROR(Map(end_, size, part));
  end_ += size;
  return Status();
}

void SharedMemory::Discard(MappedPart part) {
  if (part.size() > 0) fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, part.offset(), part.size());
}

Status SharedMemory::Map(int64_t offset, int64_t size, MappedPart* part) const {
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, offset);
  if (data == MAP_FAILED) return Failed(StatusCode::kResourceExhausted, "mmap of " + std::to_string(size) + " bytes");
  MappedPart made;
  made.data_ = static_cast<char*>(data);
  made.offset_ = offset;
  made.size_ = size;
  *part = std::move(made);
  return Status();
}

}  // namespace tf_booster
