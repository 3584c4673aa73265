// Counts what a card would do for the kernels that run in lockstep (lockstep.h): instructions by kind, sectors of
// memory, what caches would have, and how long a warp alone would take. Figures of one card, an H100 or H200, are in
// costs.h.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_COUNTER_H_
#define TF_BOOSTER_CC_PTX_MACHINE_COUNTER_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cc/ptx_machine/cache.h"
#include "cc/ptx_machine/machine.h"

namespace tf_booster::ptx {

// Of all launches of a kernel in a phase. Sectors are of 32 bytes, of the distinct ones of a warp's access.
struct Counts {
  std::string phase, kernel;
  int64_t launches = 0, blocks = 0, threads = 0, shared_bytes = 0;  // Threads and bytes: a block's, of the last launch.
  int64_t instructions[static_cast<size_t>(Kind::kKinds)] = {};     // A warp's.
  int64_t lanes = 0;                                                // That took part in them.
  int64_t slots = 0, pipe_cycles[static_cast<size_t>(Pipe::kPipes)] = {};
  int64_t l1_sectors = 0;                                             // Read, and found in the block's share of the L1.
  int64_t read_sectors = 0, written_sectors = 0, atomic_sectors = 0;  // Those that come to the L2.
  int64_t memory_read = 0, memory_written = 0;                        // Those of them that come to memory.
  int64_t shared_wavefronts = 0, local_wavefronts = 0;
  int64_t warps = 0, cycles = 0, longest = 0;  // How long warps would take alone: all of them, the longest.
  int64_t chain = 0, longest_chain = 0;        // Of loads of which each waits for an earlier one, a warp.
};

// A warp's time. Within a stretch without branches instructions wait for what they use and not for each other, as if
// ptxas had found the best order; a stretch begins when all of the one before it have begun.
struct Clock {
  struct Value {
    uint32_t ready = 0;
    uint32_t chain = 0;
  };
  std::vector<Value> values;  // By register.
  uint32_t begin = 0, slot = 0, latest = 0, chain = 0;

  void Change(size_t registers);
  void Jump() { begin = slot = std::max(latest, slot); }
};

// A block's clocks, and its share of the L1.
struct BlockClock {
  explicit BlockClock(const Block& block);
  std::vector<Clock> warps;
  Cache l1;
};

// The addresses of a warp's access, before it happens.
struct Access {
  uint64_t address[kWarp];
};

class Counter {
 public:
  // An L2 of so many bytes.
  explicit Counter(int64_t l2_bytes) : l2_(l2_bytes) {}

  // What follows belongs to a phase; its counts begin at 0, the L2 stays as it is. Null: nothing is counted.
  // Units, bytes: what the phase is about, for who reads the counts.
  void SetPhase(const char* name, double units, double bytes);
  bool counts() const { return phase_ != nullptr; }

  void Launch(const Function& kernel, Size3 blocks, Size3 threads, int64_t dynamic_shared_bytes);
  // A warp's instruction is issued for these lanes, of all that have not ended.
  void Issue(BlockClock& block, Clock& clock, const Instruction& i, uint32_t lanes, uint32_t all, const Access& access);
  void EndWarp(const Clock& clock);
  // What the stream does itself: memset, or a copy; null for the host's memory.
  void Stream(const char* what, const void* to, const void* from, int64_t bytes);

  const std::vector<Counts>& all() const { return counts_; }
  // A line of JSON for each.
  void Write(std::ostream& out) const;

 private:
  struct Phase {
    std::string name;
    double units = 0, bytes = 0;
  };
  Counts& Current() { return counts_[current_]; }
  void Begin(const std::string& kernel);
  uint32_t Reach(BlockClock& block, const Instruction& i, uint32_t lanes, const Access& access);
  uint32_t ReachGlobal(Cache* l1, const Instruction& i, uint32_t lanes, const Access& access);
  bool ReadL2(uint64_t sector);
  void WriteL2(uint64_t sector);
  void WrittenBack(uint32_t owner);

  Cache l2_;
  Phase* phase_ = nullptr;
  std::map<std::string, Phase> phases_;
  std::map<std::pair<std::string, std::string>, size_t> places_;
  std::vector<Counts> counts_;
  size_t current_ = 0;
};

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_COUNTER_H_
