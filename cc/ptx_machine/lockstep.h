// Runs a kernel as a card does when nothing comes in between: the lanes of a warp take each instruction together. Where
// they part, those at the lowest place go on until they meet the others, so that they come together again behind a
// branch or a loop. For counting: the order of threads is always the same, so it finds fewer mistakes than Machine's
// own.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_LOCKSTEP_H_
#define TF_BOOSTER_CC_PTX_MACHINE_LOCKSTEP_H_

#include <memory>
#include <vector>

#include "cc/ptx_machine/counter.h"
#include "cc/ptx_machine/machine.h"

namespace tf_booster::ptx {

class Lockstep {
 public:
  Lockstep(Machine* machine, Counter* counter) : machine_(*machine), counter_(*counter) {}

  // As Machine::Launch.
  void Launch(const Function& kernel, Size3 blocks, Size3 threads, int64_t dynamic_shared_bytes,
              const std::vector<char>& parameters);

 private:
  // Lanes of a warp that are at one place.
  struct Group {
    uint32_t lanes = 0;
    const Instruction* stop = nullptr;  // Where others wait.
  };
  struct Warp {
    int first = 0, lanes = 0;
    uint64_t steps = 0;
    uint64_t ran[kWarp] = {};  // The step at which each lane ran last.
    bool ended = false;
  };
  struct Resident {
    Resident(std::unique_ptr<Block> made);
    std::unique_ptr<Block> block;
    BlockClock clock;
    std::vector<Warp> warps;
  };

  bool RunBlock(Resident& resident);
  bool RunWarp(Resident& resident, int which);
  Group Choose(Block& block, Warp& warp);
  void RunGroup(Resident& resident, int which, const Group& group);
  void Turn(Resident& resident, int which, const Instruction& i, uint32_t lanes);

  Machine& machine_;
  Counter& counter_;
};

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_LOCKSTEP_H_
