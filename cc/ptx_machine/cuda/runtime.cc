// The calls of CUDA's runtime that this project's host code makes, nvcc's own among them, in front of a Machine. A
// program that is linked with this in place of libcudart runs its kernels from the PTX within it.
//
// What is asked of the stream happens late: nothing before the host waits for it, or asks an event, which lets a few
// things happen. So who reads results too early, or frees memory too soon, meets what was there before.
//
// PTX_MACHINE_SEED: another order of threads and of what a stream does. A fault is printed and ends the program.
// PTX_MACHINE_KERNELS: a file to which the names of kernels are appended that ran.
// PTX_MACHINE_COUNTS: a file for counts, a line of JSON a kernel and phase (counter.h); beside it FILE.<n>.ptx, the
// modules that were read. Kernels run in lockstep then, on a card with as many multiprocessors as an H200.
// PTX_MACHINE_L2: bytes of the cache for that, 50 MiB if it is not said.
// PTX_MACHINE_BYTES: of the card's memory, 2 GiB if it is not said.
#include <cuda_runtime_api.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cc/ptx_machine/counter.h"
#include "cc/ptx_machine/machine.h"

namespace tf_booster::ptx {
namespace {

// A file with PTX in it, as nvcc makes it: a head, then pieces, each with a head of its own.
struct FatBinaryHead {
  uint32_t magic;
  uint16_t version, head_bytes;
  uint64_t bytes;
};
struct FatBinaryPiece {
  uint16_t kind, version;
  uint32_t head_bytes;
  uint64_t bytes;
};
struct FatBinaryWrapper {
  int magic, version;
  const char* data;
  void* file;
};
constexpr uint32_t kFatBinaryMagic = 0xba55ed50;
constexpr uint16_t kKindPtx = 1;

// In one piece and not compressed, or nothing can be read from it.
std::string PtxOf(const FatBinaryWrapper& wrapper) {
  FatBinaryHead head;
  std::memcpy(&head, wrapper.data, sizeof(head));
  if (head.magic != kFatBinaryMagic) throw Fault("no code of nvcc's is there");
  const char* next = wrapper.data + head.head_bytes;
  const char* const end = next + head.bytes;
  while (next < end) {
    FatBinaryPiece piece;
    std::memcpy(&piece, next, sizeof(piece));
    const char* const text = next + piece.head_bytes;
    if (piece.kind == kKindPtx) {
      const std::string ptx(text, strnlen(text, piece.bytes));
      if (ptx.find(".version") == std::string::npos) throw Fault("PTX is compressed; compile with --no-compress");
      return ptx.substr(ptx.find(".version"));
    }
    next = text + piece.bytes;
  }
  throw Fault("there is no PTX; compile with -gencode=arch=compute_80,code=compute_80");
}

struct Event {
  uint64_t ticket = 0;
};

struct Configuration {
  dim3 blocks, threads;
  size_t shared_bytes;
};

struct Kernel {
  size_t module;
  std::string name;
};

class Card {
 public:
  static Card& Get() {
    // Blocks' registers come and go at each launch: a fifth to a half of the time if the kernel gave and took the
    // pages.
    static const bool keeps = mallopt(M_MMAP_THRESHOLD, 1 << 30) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1;
    (void)keeps;
    static Card* const card = new Card;  // Kernels are registered before main, and by its end all may still be used.
    return *card;
  }

  std::mutex mutex;

  size_t Register(const FatBinaryWrapper* wrapper) {
    binaries_.push_back(wrapper);
    modules_.emplace_back();
    return binaries_.size() - 1;
  }
  void Register(size_t module, const void* host_function, const char* name) {
    kernels_[host_function] = {module, name};
  }

  Kernel* FindKernel(const void* host_function) {
    const auto found = kernels_.find(host_function);
    return found == kernels_.end() ? nullptr : &found->second;
  }

  const Function& Find(const Kernel& kernel) {
    std::unique_ptr<Module>& module = modules_[kernel.module];
    if (module == nullptr) {
      const std::string ptx = PtxOf(*binaries_[kernel.module]);
      if (counts()) std::ofstream(counts_file_ + "." + std::to_string(kernel.module) + ".ptx") << ptx;
      module = std::make_unique<Module>(ptx);
      for (const auto& [data, bytes] : module->Variables()) memory.Lend(data, bytes);
    }
    const Function* function = module->Find(kernel.name);
    if (function == nullptr) throw Fault("no kernel '" + kernel.name + "' in its module");
    return *function;
  }

  void Launch(const Kernel& kernel, dim3 blocks, dim3 threads, void** arguments, size_t shared_bytes) {
    const Function& function = Find(kernel);
    std::vector<char> parameters(function.parameter_bytes);
    for (size_t p = 0; p < function.parameters.size(); ++p) {
      std::memcpy(parameters.data() + function.parameters[p].offset, arguments[p], function.parameters[p].bytes);
    }
    ran_.insert(kernel.name);
    ++launches_;
    Later([this, &function, blocks, threads, shared_bytes, parameters = std::move(parameters)] {
      machine.Launch(function, {blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z},
                     static_cast<int64_t>(shared_bytes), parameters);
    });
  }

  uint64_t Later(std::function<void()> what) {
    stream_.push_back(std::move(what));
    return ++asked_;
  }
  // All that was asked so far, or up to a ticket.
  void Wait(uint64_t ticket = ~uint64_t{0}) {
    while (!stream_.empty() && done_ < ticket) Step();
  }
  bool Happened(uint64_t ticket) {
    for (uint64_t steps = random_() % 4; steps > 0 && !stream_.empty(); --steps) Step();
    return done_ >= ticket;
  }

  cudaError_t Said(cudaError_t error) {
    if (error != cudaSuccess) last_error_ = error;
    return error;
  }
  cudaError_t TakeError() {
    const cudaError_t error = last_error_;
    last_error_ = cudaSuccess;
    return error;
  }
  cudaError_t last_error() const { return last_error_; }

  void Report() {
    Wait();
    std::fprintf(stderr, "ptx_machine: %zu of %zu kernels ran, in %llu launches of %llu instructions\n", ran_.size(),
                 kernels_.size(), static_cast<unsigned long long>(launches_),
                 static_cast<unsigned long long>(machine.instructions()));
    if (const char* file = std::getenv("PTX_MACHINE_KERNELS")) {
      std::ofstream out(file, std::ios::app);
      for (const std::string& name : ran_) out << name << "\n";
    }
    if (counts()) {
      std::ofstream out(counts_file_);
      counter.Write(out);
    }
  }

  bool counts() const { return !counts_file_.empty(); }

 private:
  static const char* Environment(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : value;
  }
  const std::string counts_file_ = Environment("PTX_MACHINE_COUNTS", "");

 public:
  Memory memory{std::strtoull(Environment("PTX_MACHINE_BYTES", "2147483648"), nullptr, 0)};
  Counter counter{std::atoll(Environment("PTX_MACHINE_L2", "52428800"))};
  Machine machine{&memory, Seed(), counts() ? &counter : nullptr};
  std::vector<Configuration> configurations;  // Of launches that have begun to be called.

 private:
  static uint64_t Seed() { return std::strtoull(Environment("PTX_MACHINE_SEED", "1"), nullptr, 0); }

  void Step() {
    const std::function<void()> what = std::move(stream_.front());
    stream_.pop_front();
    what();
    ++done_;
  }

  std::vector<const FatBinaryWrapper*> binaries_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<const void*, Kernel> kernels_;
  std::set<std::string> ran_;
  uint64_t launches_ = 0;
  std::deque<std::function<void()>> stream_;
  uint64_t asked_ = 0, done_ = 0;
  Random random_{Seed()};
  inline static thread_local cudaError_t last_error_ = cudaSuccess;  // Each host thread has its own, as in CUDA.
};

// Does `what` with the card alone. No fault is survived: what a program does behind it says nothing.
template <class F>
cudaError_t WithCard(const F& what) {
  Card& card = Card::Get();
  std::lock_guard<std::mutex> lock(card.mutex);
  try {
    return card.Said(what(card));
  } catch (const Fault& fault) {
    std::fprintf(stderr, "ptx_machine: %s\n", fault.what());
    std::fflush(nullptr);
    std::_Exit(99);
  }
}

// Where a copy's side is: the card's memory, or what both reach, if `card_side`; else any of the host's.
char* Side(Card& card, const void* pointer, size_t bytes, bool card_side) {
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  char* side = static_cast<char*>(const_cast<void*>(pointer));
  if (card_side) side = card.memory.Find(address, bytes);
  if (side == nullptr || (!card_side && (address & kDeviceMark) != 0)) {
    throw Fault("a copy of " + std::to_string(bytes) + " bytes " +
                (card_side ? "that are not in the card's memory" : "in the card's memory that should be the host's"));
  }
  return side;
}

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, bool wait) {
  return WithCard([=](Card& card) {
    const auto copy = [=, &card] {
      const bool within = kind == cudaMemcpyDeviceToDevice;
      if (within) card.counter.Stream("memcpy", to, from, static_cast<int64_t>(bytes));
      std::memmove(Side(card, to, bytes, kind == cudaMemcpyHostToDevice || within),
                   Side(card, from, bytes, kind == cudaMemcpyDeviceToHost || within), bytes);
    };
    if (kind == cudaMemcpyDefault) throw Fault("a copy that does not say its direction");
    if (bytes == 0) return cudaSuccess;
    card.Later(copy);
    if (wait) card.Wait();
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace tf_booster::ptx

using namespace tf_booster::ptx;  // NOLINT: the functions of CUDA are in no namespace.

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  Card& card = Card::Get();
  static const bool reports = std::atexit([] { Card::Get().Report(); }) == 0;
  (void)reports;
  return reinterpret_cast<void**>(card.Register(static_cast<const FatBinaryWrapper*>(wrapper)));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** module, const char* host_function, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Card::Get().Register(reinterpret_cast<size_t>(module), host_function, name);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared_bytes, CUstream_st*) {
  Card::Get().mutex.lock();  // Until the launch pops it, on this thread.
  Card::Get().configurations.push_back({blocks, threads, shared_bytes});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, size_t* shared_bytes, void* stream) {
  Card& card = Card::Get();
  *blocks = card.configurations.back().blocks;
  *threads = card.configurations.back().threads;
  *shared_bytes = card.configurations.back().shared_bytes;
  *static_cast<void**>(stream) = nullptr;
  card.configurations.pop_back();
  card.mutex.unlock();
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* host_function, dim3 blocks, dim3 threads, void** arguments,
                             size_t shared_bytes, cudaStream_t) {
  return WithCard([=](Card& card) {
    Kernel* kernel = card.FindKernel(host_function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.y > 65535 || blocks.z > 65535 ||
        threads.x * threads.y * threads.z == 0 || threads.x * threads.y * threads.z > 1024) {
      return cudaErrorInvalidConfiguration;
    }
    card.Launch(*kernel, blocks, threads, arguments, shared_bytes);
    return cudaSuccess;
  });
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, blocks, threads, arguments, shared_bytes, stream);
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return WithCard([=](Card& card) {
    *pointer = card.memory.AllocateDevice(bytes);
    return *pointer == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return WithCard([=](Card& card) {
    *pointer = card.memory.AllocateShared(bytes);
    return *pointer == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }
cudaError_t cudaFree(void* pointer) {
  return WithCard([=](Card& card) {
    card.Wait();
    return pointer == nullptr || card.memory.Free(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
  return WithCard([=](Card& card) {
    card.Later([=, &card] {
      if (!card.memory.Free(pointer)) throw Fault("memory is given back that was not allocated, or twice");
    });
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return WithCard([=](Card& card) {
    *total = card.memory.limit();
    *free = *total - card.memory.used();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return Copy(to, from, bytes, kind, false);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind, true);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  return WithCard([=](Card& card) {
    if (bytes == 0) return cudaSuccess;
    card.Later([=, &card] {
      card.counter.Stream("memset", to, nullptr, static_cast<int64_t>(bytes));
      std::memset(Side(card, to, bytes, true), value, bytes);
    });
    return cudaSuccess;
  });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }

cudaError_t cudaDeviceSynchronize() {
  return WithCard([](Card& card) {
    card.Wait();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaDeviceSynchronize(); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
// There is no time here.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return WithCard([=](Card& card) {
    reinterpret_cast<Event*>(event)->ticket = card.Later([] {});
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return WithCard([=](Card& card) {
    return card.Happened(reinterpret_cast<Event*>(event)->ticket) ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return WithCard([=](Card& card) {
    card.Wait(reinterpret_cast<Event*>(event)->ticket);
    return cudaSuccess;
  });
}

// Called by benchmarks (cc/core/gpu/bench.cuh): what follows is counted as a phase, anew; null: nothing is.
int ptx_machine_phase(const char* name, double units, double bytes) {
  int counted = 0;
  WithCard([&](Card& card) {
    card.Wait();
    counted = card.counts() ? 1 : 0;
    if (counted != 0) card.counter.SetPhase(name, units, bytes);
    return cudaSuccess;
  });
  return counted;
}

cudaError_t cudaGetLastError() { return Card::Get().TakeError(); }
cudaError_t cudaPeekAtLastError() { return Card::Get().last_error(); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return "an error of the stand-in for CUDA's runtime";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  return WithCard([=](Card& card) {
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = card.counts() ? 132 : 4;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 8;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMaxGridDimX:
        *value = 2147483647;
        return cudaSuccess;
      default:
        throw Fault("attribute " + std::to_string(attribute) + " of a card is not known");
    }
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host_function) {
  return WithCard([=](Card& card) {
    Kernel* kernel = card.FindKernel(host_function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const Function& function = card.Find(*kernel);
    *attributes = cudaFuncAttributes();
    attributes->sharedSizeBytes = function.shared_bytes;
    attributes->localSizeBytes = function.local_bytes;
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 80;
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

}  // extern "C"
