#include "cc/ptx_machine/lockstep.h"

#include <algorithm>

#include "cc/ptx_machine/registers.h"

namespace tf_booster::ptx {
namespace {

// Blocks begin in order, so one may wait for those before it.
constexpr size_t kResident = 8;
// So often a warp chooses who goes on before the next one has its turn.
constexpr int kTurn = 64;
// Lanes that wait for others further on, such as for one that holds a lock, would wait for ever if the lowest place
// always went on. Far more steps than a loop of our kernels has.
constexpr uint64_t kPatience = 1 << 14;

// Of which a lane may come back elsewhere, or not at once.
bool Turns(Kind kind) {
  return kind == Kind::kBranch || kind == Kind::kVote || kind == Kind::kShuffle || kind == Kind::kMatch ||
         kind == Kind::kBarrier;
}

bool Ended(const Block& block) { return block.ended == static_cast<int>(block.threads.size()); }

}  // namespace

Lockstep::Resident::Resident(std::unique_ptr<Block> made) : block(std::move(made)), clock(*block) {
  const int threads = static_cast<int>(block->threads.size());
  for (int first = 0; first < threads; first += kWarp) {
    warps.emplace_back();
    warps.back().first = first;
    warps.back().lanes = std::min(kWarp, threads - first);
  }
}

// Who goes on: whoever is deepest in calls, then at the lowest place; lanes that sleep only if there is nobody else.
Lockstep::Group Lockstep::Choose(Block& block, Warp& warp) {
  Thread* const threads = &block.threads[warp.first];
  const auto before = [](const Thread& a, const Thread& b) {
    if (a.yields != b.yields) return b.yields;
    if (a.callers.size() != b.callers.size()) return a.callers.size() > b.callers.size();
    return a.next < b.next;
  };
  const Thread* best = nullptr;
  bool overdue = false;
  for (int lane = 0; lane < warp.lanes; ++lane) {
    const Thread& thread = threads[lane];
    if (thread.state != Thread::kRuns) {
      warp.ran[lane] = warp.steps;
      continue;
    }
    const bool late = warp.steps - warp.ran[lane] > kPatience;
    if (best == nullptr || (late && !overdue) || (late == overdue && before(thread, *best))) best = &thread;
    overdue = overdue || late;
  }
  Group group;
  if (best == nullptr) return group;
  const size_t depth = best->callers.size();
  const Instruction* const next = best->next;
  for (int lane = 0; lane < warp.lanes; ++lane) {
    Thread& thread = threads[lane];
    if (thread.state != Thread::kRuns || thread.callers.size() != depth) continue;
    if (thread.next == next) {
      group.lanes |= 1u << lane;
      warp.ran[lane] = warp.steps;
      thread.yields = false;
    } else if (thread.next > next && (group.stop == nullptr || thread.next < group.stop)) {
      group.stop = thread.next;
    }
  }
  return group;
}

// What comes behind an instruction by which lanes part, wait or end.
void Lockstep::Turn(Resident& resident, int which, const Instruction& i, uint32_t lanes) {
  Block& block = *resident.block;
  const int first = resident.warps[which].first;
  bool ended = false;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    Thread& thread = block.threads[first + lane];
    if (thread.state == Thread::kAtActiveMask) {  // Those who are together.
      Set<uint32_t>(thread, i.to[0], lanes);
      thread.state = Thread::kRuns;
      thread.waits_at = nullptr;
    } else if (thread.state == Thread::kAtWarp) {
      block.at_warp[which] |= 1u << lane;
    } else if (thread.state == Thread::kEnded) {
      ++block.ended;
      block.alive[which] &= ~(1u << lane);
      ended = true;
    }
  }
  // All who wait, if somebody has ended; one meeting sets free whom it names.
  for (uint32_t rest = ended ? ~0u : lanes; (rest & block.at_warp[which]) != 0;) {
    const int lane = __builtin_ctz(rest & block.at_warp[which]);
    machine_.TryMeeting(block, first + lane);
    rest &= ~(1u << lane);
  }
  block.running.clear();  // Of which Machine's own order makes use.
  if (block.alive[which] == 0 && !resident.warps[which].ended) {
    resident.warps[which].ended = true;
    counter_.EndWarp(resident.clock.warps[which]);
  }
}

// To the next place where lanes may part, or to where others wait.
void Lockstep::RunGroup(Resident& resident, int which, const Group& group) {
  Block& block = *resident.block;
  Warp& warp = resident.warps[which];
  Thread* const threads = &block.threads[warp.first];
  const bool counts = counter_.counts();
  Access access;
  const Instruction* at = threads[__builtin_ctz(group.lanes)].next;
  const auto arrive = [&] {
    for (uint32_t rest = group.lanes; rest != 0; rest &= rest - 1) threads[__builtin_ctz(rest)].next = at;
  };
  for (;;) {
    const Instruction& i = *at++;
    ++warp.steps;
    uint32_t lanes = group.lanes;
    if (i.guard >= 0) {
      for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        if ((threads[lane].registers[i.guard] != 0) == i.unless) lanes &= ~(1u << lane);
      }
    }
    machine_.instructions_ += static_cast<uint64_t>(__builtin_popcount(group.lanes));
    if (counts) {
      if (i.bytes > 0) {
        for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
          const int lane = __builtin_ctz(rest);
          access.address[lane] = AddressOf(threads[lane], i);
        }
      }
      counter_.Issue(resident.clock, resident.clock.warps[which], i, lanes, block.alive[which], access);
    }
    const bool turns = Turns(i.kind);
    if (turns) arrive();
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) i.run(i, threads[__builtin_ctz(rest)]);
    if (turns) {
      Turn(resident, which, i, lanes);
      return;
    }
    if (at == group.stop) {
      arrive();
      return;
    }
  }
}

// False if nobody could go on.
bool Lockstep::RunWarp(Resident& resident, int which) {
  Warp& warp = resident.warps[which];
  if (warp.ended) return false;
  for (int turn = 0; turn < kTurn; ++turn) {
    const Group group = Choose(*resident.block, warp);
    if (group.lanes == 0) return turn > 0;
    RunGroup(resident, which, group);
    const Thread& one = resident.block->threads[warp.first + __builtin_ctz(group.lanes)];
    if (one.yields) break;
  }
  return true;
}

bool Lockstep::RunBlock(Resident& resident) {
  bool any = false;
  for (size_t which = 0; which < resident.warps.size(); ++which) {
    any = RunWarp(resident, static_cast<int>(which)) || any;
  }
  if (any || Ended(*resident.block)) return true;
  if (!machine_.TryBarrier(*resident.block)) return false;
  resident.block->running.clear();
  // Who was there first has waited for the last.
  uint32_t last = 0;
  for (const Clock& clock : resident.clock.warps) last = std::max(last, clock.begin);
  for (Clock& clock : resident.clock.warps) clock.begin = clock.slot = clock.latest = last;
  return true;
}

void Lockstep::Launch(const Function& kernel, Size3 blocks, Size3 threads, int64_t dynamic_shared_bytes,
                      const std::vector<char>& parameters) {
  counter_.Launch(kernel, blocks, threads, dynamic_shared_bytes);
  std::vector<std::unique_ptr<Resident>> residents;
  const int64_t all = blocks.all();
  for (int64_t next = 0; next < all || !residents.empty();) {
    while (next < all && residents.size() < kResident) {
      const Size3 place{static_cast<uint32_t>(next % blocks.x), static_cast<uint32_t>(next / blocks.x % blocks.y),
                        static_cast<uint32_t>(next / blocks.x / blocks.y)};
      residents.push_back(std::make_unique<Resident>(
          machine_.NewBlock(kernel, place, blocks, threads, dynamic_shared_bytes, parameters)));
      ++next;
    }
    for (auto& resident : residents) {
      if (!RunBlock(*resident)) Stuck(*resident->block);
    }
    residents.erase(std::remove_if(residents.begin(), residents.end(),
                                   [](const auto& resident) { return Ended(*resident->block); }),
                    residents.end());
  }
}

}  // namespace tf_booster::ptx
