#include "cc/ptx_machine/memory.h"

#include <cstdlib>
#include <cstring>

namespace tf_booster::ptx {
namespace {

constexpr size_t kAlignment = 256;  // As cudaMalloc's.
constexpr int kJunk = 0xa7;

}  // namespace

Memory::~Memory() {
  for (auto& [address, piece] : pieces_) {
    if (piece.own) std::free(piece.host);
  }
}

void* Memory::Allocate(size_t bytes, uint64_t mark) {
  if (bytes == 0 || used_ + bytes > limit_) return nullptr;
  // Rounded up, but what is beyond `bytes` belongs to nobody.
  char* host = static_cast<char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  if (host == nullptr) return nullptr;
  std::memset(host, kJunk, bytes);
  const uint64_t address = reinterpret_cast<uint64_t>(host) | mark;
  pieces_[address] = {bytes, host, true};
  used_ += bytes;
  return reinterpret_cast<void*>(address);
}

void* Memory::AllocateDevice(size_t bytes) { return Allocate(bytes, kDeviceMark); }
void* Memory::AllocateShared(size_t bytes) { return Allocate(bytes, 0); }

bool Memory::Free(void* pointer) {
  const auto piece = pieces_.find(reinterpret_cast<uint64_t>(pointer));
  if (piece == pieces_.end() || !piece->second.own) return false;
  used_ -= piece->second.bytes;
  std::memset(piece->second.host, ~kJunk, piece->second.bytes);
  std::free(piece->second.host);
  pieces_.erase(piece);
  last_ = pieces_.end();
  return true;
}

void Memory::Lend(void* pointer, size_t bytes) {
  pieces_[reinterpret_cast<uint64_t>(pointer)] = {bytes, static_cast<char*>(pointer), false};
}

char* Memory::Find(uint64_t address, uint64_t bytes) {
  const auto within = [&](std::map<uint64_t, Piece>::iterator piece) {
    const uint64_t offset = address - piece->first;
    return offset < piece->second.bytes && bytes <= piece->second.bytes - offset;
  };
  if (last_ == pieces_.end() || !within(last_)) {
    auto piece = pieces_.upper_bound(address);
    if (piece == pieces_.begin() || !within(--piece)) return nullptr;
    last_ = piece;
  }
  return last_->second.host + (address - last_->first);
}

}  // namespace tf_booster::ptx
