// Runs PTX on the host, slowly and with suspicion, so that what nvcc made of kernels can be tested without a card:
// every address is checked, threads take turns at random, down to single instructions, and stop wherever an instruction
// of a warp or a barrier lets them wait for each other.
//
// What it is not: a card. Memory is sequentially consistent here, there are no caches, no time, and ptxas has not seen
// the code.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_MACHINE_H_
#define TF_BOOSTER_CC_PTX_MACHINE_MACHINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/ptx_machine/memory.h"
#include "cc/ptx_machine/program.h"

namespace tf_booster::ptx {

inline constexpr int kWarp = 32;

struct Size3 {
  uint32_t x = 1, y = 1, z = 1;
  int64_t all() const { return int64_t{x} * y * z; }
};

struct Block;
class Counter;
class Machine;

// What a thread that called a function goes back to.
struct Frame {
  const Call* call;
  uint64_t* registers;
  char* parameters;
  const Instruction* next;
  int64_t local_base;
  std::unique_ptr<uint64_t[]> callee_registers;
  std::vector<char> callee_parameters;
};

struct Thread {
  enum State : uint8_t { kRuns, kAtWarp, kAtActiveMask, kAtBarrier, kEnded };

  uint64_t* registers;
  char* parameters;
  const Instruction* next;
  const Instruction* waits_at = nullptr;  // Unless it runs.
  State state = kRuns;
  bool yields = false;
  int rank = 0;
  int64_t local_base = 0;
  char* local = nullptr;
  Block* block = nullptr;
  std::vector<Frame> callers;  // Outermost first.
};

struct Block {
  Machine* machine;
  const Function* kernel;
  Size3 place;
  std::vector<Thread> threads;
  std::vector<int> running;              // Those in state kRuns, in any order.
  std::vector<uint32_t> alive, at_warp;  // The lanes of each warp that have not ended, and those in state kAtWarp.
  std::unique_ptr<uint64_t[]> registers;
  std::vector<char> parameters;  // Each thread's, if it calls functions; else all have the launch's.
  std::vector<char> local, shared;
  int64_t local_bytes = 0;  // A thread's, with what it calls.
  int ended = 0;
};

// Numbers as good as chance, quickly.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

class Machine {
 public:
  // With a counter, warps run in lockstep.
  Machine(Memory* memory, uint64_t seed, Counter* counter = nullptr)
      : memory_(memory), random_(seed), counter_(counter) {}

  // Runs a kernel to its end. Throws Fault where it does something that it must not.
  void Launch(const Function& kernel, Size3 blocks, Size3 threads, int64_t dynamic_shared_bytes,
              const std::vector<char>& parameters);

  Memory& memory() { return *memory_; }
  uint64_t instructions() const { return instructions_; }

 private:
  friend class Lockstep;
  std::unique_ptr<Block> NewBlock(const Function& kernel, Size3 place, Size3 blocks, Size3 threads,
                                  int64_t dynamic_shared_bytes, const std::vector<char>& parameters);
  void RunSome(Block& block);
  void Release(Thread& thread);
  void TryMeeting(Block& block, int rank);
  bool TryActiveMasks(Block& block);
  bool TryBarrier(Block& block);

  Memory* memory_;
  Random random_;
  Counter* counter_;
  uint64_t instructions_ = 0;
};

// Of a block in which nobody can go on: says who waits for what.
[[noreturn]] void Stuck(const Block& block);

// The function that a thread is in.
inline const Function& FunctionOf(const Thread& thread) {
  return thread.callers.empty() ? *thread.block->kernel : *thread.callers.back().call->function;
}

// Says where a thread is, for messages.
std::string Place(const Thread& thread, const Instruction& instruction);

// The address that an instruction reaches memory at, in its own space or among generic ones.
inline uint64_t AddressOf(const Thread& thread, const Instruction& i) {
  const uint64_t address = thread.registers[i.from[0]] + static_cast<uint64_t>(i.offset);
  // Other spaces than these have addresses of 32 bits.
  return i.space == Space::kGlobal || i.space == Space::kGeneric ? address : static_cast<uint32_t>(address);
}
// The space in which that is.
Space SpaceOf(const Instruction& instruction, uint64_t address);

// The memory of `bytes` at an address, checked; throws Fault.
char* At(Thread& thread, const Instruction& instruction, uint64_t address, int64_t bytes, int64_t alignment);

// Where the spaces of a block and of a thread are among generic addresses.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
inline constexpr uint64_t kParameterWindow = uint64_t{3} << 56;

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_MACHINE_H_
