#include "cc/ptx_machine/machine.h"

#include <pmmintrin.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstring>

#include "cc/ptx_machine/lockstep.h"
#include "cc/ptx_machine/registers.h"

namespace tf_booster::ptx {
namespace {

// So many blocks of a launch run beside each other. They begin in order, so one may wait for those before it.
constexpr size_t kResident = 3;
constexpr char kJunk = 0x5c;
constexpr int64_t kLocalBytesOfCalls = 1024;

// Without values: a program that reads what it has not written gets anything.
std::unique_ptr<uint64_t[]> NewRegisters(const Function& function, size_t threads) {
  return std::unique_ptr<uint64_t[]>(new uint64_t[function.all_registers * threads]);
}

int WarpOf(int rank) { return rank / kWarp; }

std::string Triple(Size3 place) {
  return std::to_string(place.x) + "," + std::to_string(place.y) + "," + std::to_string(place.z);
}

// What all lanes of `lanes` get, who are at the same instruction.
void Meet(Block& block, int warp, uint32_t lanes, const Instruction& i) {
  const auto thread = [&](int lane) -> Thread& { return block.threads[warp * kWarp + lane]; };
  const auto has = [&](int lane) { return (lanes >> lane & 1) != 0; };
  uint64_t value[kWarp] = {0};
  uint32_t said = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!has(lane)) continue;
    value[lane] = thread(lane).registers[i.from[0]];
    if (i.mode != kMatchAny64) value[lane] = static_cast<uint32_t>(value[lane]);
    if (value[lane] != 0) said |= 1u << lane;
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!has(lane)) continue;
    Thread& t = thread(lane);
    switch (i.mode) {
      case kWarpBarrier:
        break;
      case kBallot:
        Set<uint32_t>(t, i.to[0], said);
        break;
      case kAll:
        Set<bool>(t, i.to[0], said == lanes);
        break;
      case kAny:
        Set<bool>(t, i.to[0], said != 0);
        break;
      case kMatchAny32:
      case kMatchAny64: {
        uint32_t same = 0;
        for (int other = 0; other < kWarp; ++other) {
          if (has(other) && value[other] == value[lane]) same |= 1u << other;
        }
        Set<uint32_t>(t, i.to[0], same);
        break;
      }
      default: {  // Shuffles, as the manual has them.
        const int b = Get<uint32_t>(t, i.from[1]) & 31;
        const uint32_t c = Get<uint32_t>(t, i.from[2]);
        const int clamp = c & 31, segment = c >> 8 & 31;
        const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
        int from = 0;
        bool inside = false;
        if (i.mode == kShuffleUp) {
          from = lane - b;
          inside = from >= most;
        } else {
          from = i.mode == kShuffleDown ? lane + b : i.mode == kShuffleXor ? lane ^ b : least | (b & ~segment);
          inside = from <= most;
        }
        if (!inside) from = lane;
        if (!has(from)) {
          throw Fault(Place(t, i) + ": takes the value of lane " + std::to_string(from) +
                      ", which is not among those that meet");
        }
        Set<uint32_t>(t, i.to[0], static_cast<uint32_t>(value[from]));
        Set<bool>(t, i.to[1], inside);
      }
    }
  }
}

}  // namespace

void Stuck(const Block& block) {
  std::string what = "nobody can go on";
  int told = 0;
  for (const Thread& thread : block.threads) {
    if (thread.state == Thread::kEnded || ++told > 4) continue;
    what += "\n  " + Place(thread, *thread.waits_at);
    if (thread.state == Thread::kAtWarp) {
      char mask[40];
      std::snprintf(mask, sizeof(mask), " waits for lanes %08x", Get<uint32_t>(thread, thread.waits_at->from[kMask]));
      what += mask;
    } else {
      what += " waits for all threads of its block";
    }
  }
  throw Fault(what);
}

std::string Place(const Thread& thread, const Instruction& instruction) {
  return "PTX of " + FunctionOf(thread).name + ": block " + Triple(thread.block->place) + " thread " +
         std::to_string(thread.rank) + ": \"" + instruction.text + "\"";
}

void RunBranch(const Instruction& i, Thread& thread) {
  thread.next = FunctionOf(thread).instructions.data() + i.target;
}

void RunCall(const Instruction& i, Thread& thread) {
  const Call& call = *i.call;
  const Function& callee = *call.function;
  Frame frame{&call,
              thread.registers,
              thread.parameters,
              thread.next,
              thread.local_base,
              NewRegisters(callee, 1),
              std::vector<char>(callee.parameter_bytes, kJunk)};
  if (call.arguments.size() != callee.parameters.size())
    throw Fault(Place(thread, i) + ": another number of arguments");
  for (size_t a = 0; a < call.arguments.size(); ++a) {
    const Parameter& parameter = callee.parameters[a];
    std::memcpy(frame.callee_parameters.data() + parameter.offset, thread.parameters + call.arguments[a],
                parameter.bytes);
  }
  std::copy(callee.registers.begin(), callee.registers.end(), frame.callee_registers.get());
  std::copy(thread.registers, thread.registers + kSpecials, frame.callee_registers.get());
  const int64_t local_base = thread.local_base + (FunctionOf(thread).local_bytes + 15) / 16 * 16;
  if (local_base + callee.local_bytes > thread.block->local_bytes)
    throw Fault(Place(thread, i) + ": no local memory is left");
  thread.callers.push_back(std::move(frame));
  thread.registers = thread.callers.back().callee_registers.get();
  thread.parameters = thread.callers.back().callee_parameters.data();
  thread.registers[kLocalBase] = static_cast<uint64_t>(local_base);
  thread.local_base = local_base;
  thread.next = callee.instructions.data();
}

void RunReturn(const Instruction&, Thread& thread) {
  if (thread.callers.empty()) {
    thread.state = Thread::kEnded;
    return;
  }
  const Frame& frame = thread.callers.back();
  const Parameter& result = frame.call->function->result;
  if (frame.call->result >= 0 && result.offset >= 0) {
    std::memcpy(frame.parameters + frame.call->result, thread.parameters + result.offset, result.bytes);
  }
  thread.registers = frame.registers;
  thread.parameters = frame.parameters;
  thread.next = frame.next;
  thread.local_base = frame.local_base;
  thread.callers.pop_back();
}

void RunExit(const Instruction&, Thread& thread) { thread.state = Thread::kEnded; }
void RunMeeting(const Instruction& i, Thread& thread) {
  thread.state = Thread::kAtWarp;
  thread.waits_at = &i;
}
void RunActiveMask(const Instruction& i, Thread& thread) {
  thread.state = Thread::kAtActiveMask;
  thread.waits_at = &i;
}
void RunBarrier(const Instruction& i, Thread& thread) {
  thread.state = Thread::kAtBarrier;
  thread.waits_at = &i;
}
void RunYield(const Instruction&, Thread& thread) { thread.yields = true; }
void RunNothing(const Instruction&, Thread&) {}
void RunTrap(const Instruction& i, Thread& thread) { throw Fault(Place(thread, i)); }

std::unique_ptr<Block> Machine::NewBlock(const Function& kernel, Size3 place, Size3 blocks, Size3 threads,
                                         int64_t dynamic_shared_bytes, const std::vector<char>& parameters) {
  auto block = std::make_unique<Block>();
  block->machine = this;
  block->kernel = &kernel;
  block->place = place;
  const size_t n = static_cast<size_t>(threads.all()), registers = kernel.all_registers;
  const size_t parameter_bytes = static_cast<size_t>(kernel.parameter_bytes);
  block->threads.resize(n);
  block->registers = NewRegisters(kernel, n);
  block->shared.assign(kernel.shared_bytes + dynamic_shared_bytes, kJunk);
  block->local_bytes = (kernel.local_bytes + 15) / 16 * 16 + (kernel.calls.empty() ? 0 : kLocalBytesOfCalls);
  block->local.assign(n * block->local_bytes, kJunk);
  block->alive.resize((n + kWarp - 1) / kWarp);
  block->at_warp.resize(block->alive.size());
  block->parameters.resize(parameter_bytes * (kernel.calls.empty() ? 1 : n), kJunk);
  for (size_t copy = 0; copy < (kernel.calls.empty() ? 1 : n); ++copy) {
    std::copy(parameters.begin(), parameters.end(), block->parameters.begin() + copy * parameter_bytes);
  }
  for (size_t rank = 0; rank < n; ++rank) {
    Thread& thread = block->threads[rank];
    thread.rank = static_cast<int>(rank);
    thread.block = block.get();
    thread.registers = block->registers.get() + rank * registers;
    thread.parameters = block->parameters.data() + (kernel.calls.empty() ? 0 : rank * parameter_bytes);
    thread.local = block->local.data() + rank * block->local_bytes;
    thread.next = kernel.instructions.data();
    std::copy(kernel.registers.begin(), kernel.registers.end(), thread.registers);
    const uint32_t lane = static_cast<uint32_t>(rank % kWarp), bit = 1u << lane;
    const uint32_t special[] = {static_cast<uint32_t>(rank % threads.x),
                                static_cast<uint32_t>(rank / threads.x % threads.y),
                                static_cast<uint32_t>(rank / threads.x / threads.y),
                                threads.x,
                                threads.y,
                                threads.z,
                                place.x,
                                place.y,
                                place.z,
                                blocks.x,
                                blocks.y,
                                blocks.z,
                                lane,
                                static_cast<uint32_t>(WarpOf(thread.rank)),
                                bit,
                                bit | (bit - 1),
                                bit - 1,
                                ~(bit - 1),
                                ~(bit | (bit - 1)),
                                0,
                                0};
    std::copy(std::begin(special), std::end(special), thread.registers);
    block->alive[WarpOf(thread.rank)] |= bit;
    block->running.push_back(thread.rank);
  }
  return block;
}

void Machine::Release(Thread& thread) {
  if (thread.state == Thread::kAtWarp) thread.block->at_warp[WarpOf(thread.rank)] &= ~(1u << thread.rank % kWarp);
  thread.state = Thread::kRuns;
  thread.waits_at = nullptr;
  thread.block->running.push_back(thread.rank);
}

// If all lanes are there whom the thread waits for, they go on.
void Machine::TryMeeting(Block& block, int rank) {
  const Thread& thread = block.threads[rank];
  const Instruction& i = *thread.waits_at;
  const uint32_t mask = Get<uint32_t>(thread, i.from[kMask]);
  const int warp = WarpOf(rank);
  if ((mask >> (rank % kWarp) & 1) == 0) throw Fault(Place(thread, i) + ": its mask is without the lane itself");
  const uint32_t lanes = mask & block.alive[warp];
  if ((lanes & ~block.at_warp[warp]) != 0) return;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const Thread& other = block.threads[warp * kWarp + lane];
    if (other.waits_at != &i || Get<uint32_t>(other, i.from[kMask]) != mask) return;
  }
  Meet(block, warp, lanes, i);
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) Release(block.threads[warp * kWarp + lane]);
  }
}

// Which lanes are "active" together is the card's affair: any that are at the instruction, here as chance will have it.
bool Machine::TryActiveMasks(Block& block) {
  bool any = false;
  for (size_t first = 0; first < block.threads.size(); first += kWarp) {
    const Instruction* at = nullptr;
    uint32_t lanes = 0;
    for (size_t rank = first; rank < std::min(first + kWarp, block.threads.size()); ++rank) {
      const Thread& thread = block.threads[rank];
      if (thread.state != Thread::kAtActiveMask || (at != nullptr && thread.waits_at != at)) continue;
      at = thread.waits_at;
      lanes |= 1u << (rank - first);
    }
    if (lanes == 0) continue;
    const uint32_t some = lanes & static_cast<uint32_t>(random_());
    if (random_() % 4 == 0 && some != 0) lanes = some;
    for (int lane = 0; lane < kWarp; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      Set<uint32_t>(block.threads[first + lane], at->to[0], lanes);
      Release(block.threads[first + lane]);
    }
    any = true;
  }
  return any;
}

// If all threads of the block are at the barrier that have not ended, they go on.
bool Machine::TryBarrier(Block& block) {
  const Instruction* at = nullptr;
  bool all = true, any = false;
  for (const Thread& thread : block.threads) {
    if (thread.state == Thread::kEnded) continue;
    if (thread.state != Thread::kAtBarrier || (at != nullptr && at != thread.waits_at)) return false;
    at = thread.waits_at;
    const bool said = Get<bool>(thread, at->from[0]);
    all = all && said;
    any = any || said;
  }
  if (at == nullptr) return false;
  for (Thread& thread : block.threads) {
    if (thread.state == Thread::kEnded) continue;
    if (at->to[0] != kSink) Set<bool>(thread, at->to[0], at->mode == kAll ? all : any);
    Release(thread);
  }
  return true;
}

// Lets a thread of the block take some steps.
void Machine::RunSome(Block& block) {
  if (block.running.empty()) {
    if (!TryActiveMasks(block) && !TryBarrier(block)) Stuck(block);
    return;
  }
  const uint64_t chance = random_();
  const size_t which = (chance >> 32) % block.running.size();
  const int rank = block.running[which];
  Thread& thread = block.threads[rank];
  // Mostly as far as it gets; at times a few steps only.
  int64_t steps = (chance & 3) == 0 ? 1 + static_cast<int64_t>(chance >> 2 & 31) : 2000;
  const int64_t begin = steps;
  while (steps-- > 0) {
    const Instruction& i = *thread.next++;
    if (i.guard >= 0 && (thread.registers[i.guard] != 0) == i.unless) continue;
    i.run(i, thread);
    if (thread.state != Thread::kRuns || thread.yields) break;
  }
  instructions_ += static_cast<uint64_t>(begin - std::max<int64_t>(steps, 0));
  thread.yields = false;
  if (thread.state == Thread::kRuns) return;
  block.running[which] = block.running.back();
  block.running.pop_back();
  const int warp = WarpOf(rank);
  const uint32_t bit = 1u << rank % kWarp;
  if (thread.state == Thread::kAtWarp) {
    block.at_warp[warp] |= bit;
    TryMeeting(block, rank);
  } else if (thread.state == Thread::kEnded) {  // Who waited for it waits no longer.
    ++block.ended;
    block.alive[warp] &= ~bit;
    for (int lane = 0; lane < kWarp; ++lane) {
      if ((block.at_warp[warp] >> lane & 1) != 0) TryMeeting(block, warp * kWarp + lane);
    }
  }
}

namespace {

// A card keeps denormal numbers, whatever the thread that runs it here does with them: TensorFlow's flush them to zero.
class KeepsDenormals {
 public:
  KeepsDenormals() { _mm_setcsr(saved_ & ~(_MM_FLUSH_ZERO_MASK | _MM_DENORMALS_ZERO_MASK)); }
  ~KeepsDenormals() { _mm_setcsr(saved_); }
  KeepsDenormals(const KeepsDenormals&) = delete;
  KeepsDenormals& operator=(const KeepsDenormals&) = delete;

 private:
  const unsigned saved_ = _mm_getcsr();
};

}  // namespace

void Machine::Launch(const Function& kernel, Size3 blocks, Size3 threads, int64_t dynamic_shared_bytes,
                     const std::vector<char>& parameters) {
  const KeepsDenormals keeps_denormals;
  if (counter_ != nullptr) {
    Lockstep(this, counter_).Launch(kernel, blocks, threads, dynamic_shared_bytes, parameters);
    return;
  }
  std::vector<std::unique_ptr<Block>> resident;
  const int64_t all = blocks.all();
  for (int64_t next = 0; next < all || !resident.empty();) {
    while (next < all && resident.size() < kResident) {
      const Size3 place{static_cast<uint32_t>(next % blocks.x), static_cast<uint32_t>(next / blocks.x % blocks.y),
                        static_cast<uint32_t>(next / blocks.x / blocks.y)};
      resident.push_back(NewBlock(kernel, place, blocks, threads, dynamic_shared_bytes, parameters));
      ++next;
    }
    const size_t which = random_() % resident.size();
    Block& block = *resident[which];
    for (int turn = 0; turn < 16 && block.ended < static_cast<int>(block.threads.size()); ++turn) RunSome(block);
    if (block.ended == static_cast<int>(block.threads.size())) resident.erase(resident.begin() + which);
  }
}

}  // namespace tf_booster::ptx
