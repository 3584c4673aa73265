#include "cc/ptx_machine/counter.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace tf_booster::ptx {
namespace {

// Of the 256 KB that L1 and shared memory have together, for 2048 threads.
constexpr int64_t kL1Bytes = 192 << 10, kThreadsOfMultiprocessor = 2048;
constexpr int kBanks = 32;
// A wavefront takes the memory pipe of all four schedulers one cycle.
constexpr int kWavefrontCycles = 4;

// f(lane) for each.
template <class F>
void ForLanes(uint32_t lanes, const F& f) {
  for (; lanes != 0; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

// Shared memory: the most that one of its banks has to give, of which lanes share what is one word; atomics do not.
int64_t SharedWavefronts(const Instruction& i, uint32_t lanes, const Access& access) {
  std::vector<uint64_t> words;
  ForLanes(lanes, [&](int lane) {
    for (int byte = 0; byte < i.bytes; byte += 4) words.push_back((access.address[lane] + byte) / 4);
  });
  if (i.kind != Kind::kAtomic) {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
  }
  int64_t of_bank[kBanks] = {}, most = 0;
  for (const uint64_t word : words) most = std::max(most, ++of_bank[word % kBanks]);
  return most;
}

std::string Demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return text == nullptr ? name : text.get();
}

void WriteList(std::ostream& out, const char* name, const std::vector<std::pair<const char*, int64_t>>& values) {
  out << ", \"" << name << "\": {";
  const char* comma = "";
  for (const auto& [key, value] : values) {
    out << comma << "\"" << key << "\": " << value;
    comma = ", ";
  }
  out << "}";
}

}  // namespace

BlockClock::BlockClock(const Block& block)
    : warps(block.alive.size()), l1(kL1Bytes * static_cast<int64_t>(block.threads.size()) / kThreadsOfMultiprocessor) {
  for (Clock& clock : warps) clock.values.resize(block.kernel->all_registers);
}

void Counter::SetPhase(const char* name, double units, double bytes) {
  phase_ = nullptr;
  if (name == nullptr) return;
  phase_ = &phases_[name];
  *phase_ = {name, units, bytes};
  for (Counts& counts : counts_) {
    if (counts.phase != name) continue;
    const std::string kernel = counts.kernel;
    counts = Counts();
    counts.phase = name;
    counts.kernel = kernel;
  }
}

void Counter::Begin(const std::string& kernel) {
  const auto [place, added] = places_.try_emplace({phase_->name, kernel}, counts_.size());
  if (added) counts_.emplace_back();
  current_ = place->second;
  Current().phase = phase_->name;
  Current().kernel = kernel;
  ++Current().launches;
}

void Counter::Launch(const Function& kernel, Size3 blocks, Size3 threads, int64_t dynamic_shared_bytes) {
  if (!counts()) return;
  Begin(kernel.name);
  Current().blocks += blocks.all();
  Current().threads = threads.all();
  Current().shared_bytes = kernel.shared_bytes + dynamic_shared_bytes;
}

// What another phase has left there is nobody's: as much of this one stays in the cache when it ends.
void Counter::WrittenBack(uint32_t owner) {
  if (counts_[owner].phase == Current().phase) ++counts_[owner].memory_written;
}

bool Counter::ReadL2(uint64_t sector) {
  const bool hit = l2_.Read(sector, [this](uint32_t owner) { WrittenBack(owner); });
  if (!hit) ++Current().memory_read;
  return hit;
}
void Counter::WriteL2(uint64_t sector) {
  l2_.Write(sector, static_cast<uint32_t>(current_), [this](uint32_t owner) { WrittenBack(owner); });
}

// How long until its values are there.
uint32_t Counter::ReachGlobal(Cache* l1, const Instruction& i, uint32_t lanes, const Access& access) {
  uint64_t sectors[2 * kWarp];
  int n = 0;
  ForLanes(lanes, [&](int lane) {
    const uint64_t first = access.address[lane] / kSectorBytes;
    const uint64_t last = (access.address[lane] + i.bytes - 1) / kSectorBytes;
    for (uint64_t sector = first; sector <= last; ++sector) {
      if (n == 0 || sectors[n - 1] != sector) sectors[n++] = sector;
    }
  });
  std::sort(sectors, sectors + n);
  n = static_cast<int>(std::unique(sectors, sectors + n) - sectors);
  Counts& counts = Current();
  const int wavefronts = (n + kLineSectors - 1) / kLineSectors;
  counts.pipe_cycles[static_cast<size_t>(Pipe::kMemory)] += kWavefrontCycles * wavefronts;
  uint32_t latency = kL1Latency;
  for (int s = 0; s < n; ++s) {
    if (i.kind == Kind::kStore) {
      ++counts.written_sectors;
      WriteL2(sectors[s]);
      continue;
    }
    if (i.kind == Kind::kLoad && !i.passes_l1 && l1->Read(sectors[s], [](uint32_t) {})) {
      ++counts.l1_sectors;
      continue;
    }
    ++(i.kind == Kind::kAtomic ? counts.atomic_sectors : counts.read_sectors);
    latency = std::max<uint32_t>(latency, ReadL2(sectors[s]) ? kL2Latency : kMemoryLatency);
    if (i.kind == Kind::kAtomic) WriteL2(sectors[s]);
  }
  return latency + wavefronts - 1;
}

uint32_t Counter::Reach(BlockClock& block, const Instruction& i, uint32_t lanes, const Access& access) {
  const Space space = SpaceOf(i, access.address[__builtin_ctz(lanes)]);
  if (space == Space::kGlobal) return ReachGlobal(&block.l1, i, lanes, access);
  Counts& counts = Current();
  int64_t wavefronts = 0;
  if (space == Space::kShared) {
    counts.shared_wavefronts += wavefronts = SharedWavefronts(i, lanes, access);
  } else if (space == Space::kLocal) {  // Lanes' words are beside each other, whatever their addresses.
    counts.local_wavefronts += wavefronts = (i.bytes + 3) / 4;
  }
  counts.pipe_cycles[static_cast<size_t>(Pipe::kMemory)] += kWavefrontCycles * wavefronts;
  return static_cast<uint32_t>((space == Space::kShared ? kSharedLatency : kL1Latency) + wavefronts);
}

// Registers of another function follow: all of these are waited for.
void Clock::Change(size_t registers) {
  Value last{latest, chain};
  for (const Value& value : values) last.ready = std::max(last.ready, value.ready);
  values.assign(std::max(registers, values.size()), last);
  values[kSink] = {};
  latest = last.ready;
}

void Counter::Issue(BlockClock& block, Clock& clock, const Instruction& i, uint32_t lanes, uint32_t all,
                    const Access& access) {
  const Cost& cost = CostOf(i.kind);
  Counts& counts = Current();
  ++counts.instructions[static_cast<size_t>(i.kind)];
  counts.lanes += __builtin_popcount(lanes);
  counts.slots += cost.slots;
  counts.pipe_cycles[static_cast<size_t>(cost.pipe)] += cost.cycles;

  Clock::Value used;
  const auto uses = [&](int32_t which) {
    used.ready = std::max(used.ready, clock.values[which].ready);
    used.chain = std::max(used.chain, clock.values[which].chain);
  };
  if (i.guard >= 0) uses(i.guard);
  for (const int32_t which : i.from) uses(which);
  const uint32_t issue = std::max(clock.slot, used.ready);
  clock.slot += cost.slots;
  clock.latest = std::max(clock.latest, issue);
  uint32_t latency = static_cast<uint32_t>(cost.latency);
  if (cost.pipe == Pipe::kMemory && i.bytes > 0 && lanes != 0) {
    latency += Reach(block, i, lanes, access);
    const bool waits = i.kind == Kind::kLoad || (i.kind == Kind::kAtomic && i.to[0] != kSink);
    if (waits && SpaceOf(i, access.address[__builtin_ctz(lanes)]) == Space::kGlobal) ++used.chain;
    clock.chain = std::max(clock.chain, used.chain);
  }
  for (const int32_t which : i.to) {
    Clock::Value& value = clock.values[which];
    value.ready = std::max(value.ready, issue + latency);
    // Lanes that are not here keep what they have.
    value.chain = lanes == all ? used.chain : std::max(value.chain, used.chain);
  }
  clock.values[kSink] = {};
  if (i.kind == Kind::kFence || i.kind == Kind::kBarrier) clock.latest = std::max(clock.latest, issue + latency);
  if (i.run == RunCall || i.run == RunReturn) clock.Change(i.call == nullptr ? 0 : i.call->function->all_registers);
  if (i.kind == Kind::kBranch || i.kind == Kind::kFence || i.kind == Kind::kBarrier) clock.Jump();
}

void Counter::EndWarp(const Clock& clock) {
  if (!counts()) return;
  Counts& counts = Current();
  const int64_t cycles = std::max(clock.latest, clock.slot);
  ++counts.warps;
  counts.cycles += cycles;
  counts.longest = std::max(counts.longest, cycles);
  counts.chain += clock.chain;
  counts.longest_chain = std::max<int64_t>(counts.longest_chain, clock.chain);
}

void Counter::Stream(const char* what, const void* to, const void* from, int64_t bytes) {
  if (!counts() || bytes == 0) return;
  Begin(what);
  const auto each = [&](const void* memory, const auto& f) {
    const uint64_t address = reinterpret_cast<uint64_t>(memory);
    if (memory == nullptr) return;
    for (uint64_t s = address / kSectorBytes; s <= (address + bytes - 1) / kSectorBytes; ++s) f(s);
  };
  each(from, [&](uint64_t sector) {
    ++Current().read_sectors;
    ReadL2(sector);
  });
  each(to, [&](uint64_t sector) {
    ++Current().written_sectors;
    WriteL2(sector);
  });
}

void Counter::Write(std::ostream& out) const {
  for (const Counts& c : counts_) {
    if (c.launches == 0) continue;
    const Phase& phase = phases_.at(c.phase);
    out << "{\"phase\": \"" << c.phase << "\", \"units\": " << phase.units << ", \"bytes\": " << phase.bytes
        << ", \"kernel\": \"" << c.kernel << "\", \"name\": \"" << Demangled(c.kernel) << "\"";
    std::vector<std::pair<const char*, int64_t>> kinds;
    for (const Cost& cost : kCosts) kinds.emplace_back(cost.name, c.instructions[static_cast<size_t>(cost.kind)]);
    WriteList(out, "instructions", kinds);
    const auto pipe = [&](Pipe which) { return c.pipe_cycles[static_cast<size_t>(which)]; };
    WriteList(out, "issue",
              {{"slots", c.slots},
               {"float", pipe(Pipe::kFloat)},
               {"integer", pipe(Pipe::kInteger)},
               {"double", pipe(Pipe::kDouble)},
               {"special", pipe(Pipe::kSpecial)},
               {"memory", pipe(Pipe::kMemory)}});
    WriteList(out, "counts",
              {{"launches", c.launches},
               {"blocks", c.blocks},
               {"threads", c.threads},
               {"shared_bytes", c.shared_bytes},
               {"lanes", c.lanes},
               {"l1_sectors", c.l1_sectors},
               {"read_sectors", c.read_sectors},
               {"written_sectors", c.written_sectors},
               {"atomic_sectors", c.atomic_sectors},
               {"memory_read", c.memory_read},
               {"memory_written", c.memory_written},
               {"shared_wavefronts", c.shared_wavefronts},
               {"local_wavefronts", c.local_wavefronts},
               {"warps", c.warps},
               {"cycles", c.cycles},
               {"longest", c.longest},
               {"chain", c.chain},
               {"longest_chain", c.longest_chain}});
    out << "}\n";
  }
}

}  // namespace tf_booster::ptx
