// Counts of small kernels, which can be told beforehand, and that lanes in lockstep compute what they should.
#include "cc/ptx_machine/lockstep.h"

#include "cc/core/base/test.h"
#include "cc/ptx_machine/test_kernel.h"

namespace tf_booster::ptx {
namespace {

constexpr int64_t kL2 = 1 << 20;
// Thread's number in %r0, 4 bytes a thread in %rd3.
const std::string kPlace = "mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2;\n";

struct Counted {
  Outcome outcome;
  Counts counts;
};
// The counts of a launch; data of zeros if they are not said.
Counted Count(const std::string& body, uint32_t threads = 32, std::vector<uint32_t> data = {}, int64_t l2 = kL2) {
  Counter counter(l2);
  counter.SetPhase("phase", 0, 0);
  if (data.empty()) data.resize(2048);
  Counted run;
  run.outcome = Run(KernelText(kPlace + body), data, {}, {threads}, 1, &counter);
  EXPECT_EQ(run.outcome.fault, "");
  run.counts = counter.all().at(0);
  return run;
}
int64_t Of(const Counts& counts, Kind kind) { return counts.instructions[static_cast<size_t>(kind)]; }

// Sectors that a load reads at this place: `stride` bytes a thread, from `first` on.
int64_t Sectors(const std::string& type, int stride, int first, uint32_t threads = 32) {
  const std::string body = "mul.wide.u32 %rd4, %r0, " + std::to_string(stride) +
                           "; add.s64 %rd5, %rd1, %rd4;\nld.global." + type + ", [%rd5+" + std::to_string(first) + "];";
  return Count(body, threads).counts.read_sectors;
}
// How often shared memory is reached for an instruction at `address` of each lane.
int64_t Wavefronts(const std::string& address, const std::string& instruction) {
  return Count(".shared .align 16 .b8 all[4096];\nmov.u32 %r1, all;\n" + address + " add.s32 %r2, %r1, %r2;\n" +
               instruction)
      .counts.shared_wavefronts;
}

}  // namespace

TEST(SectorsOfAnAccess) {
  EXPECT_EQ(Sectors("u32 %r1", 4, 0), 4);
  EXPECT_EQ(Sectors("u32 %r1", 4, 16), 5);  // Half a sector at either end.
  EXPECT_EQ(Sectors("u32 %r1", 32, 0), 32);
  EXPECT_EQ(Sectors("u32 %r1", 128, 0), 32);
  EXPECT_EQ(Sectors("u32 %r1", 0, 0), 1);
  EXPECT_EQ(Sectors("v4.u32 {%r1, %r2, %r3, %r4}", 16, 0), 16);
  EXPECT_EQ(Sectors("u64 %rd6", 8, 0), 8);
  EXPECT_EQ(Sectors("u32 %r1", 4, 0, 40), 5);  // A warp and a quarter of one.
  // Neighbours that take turns between two sectors.
  const std::string turns = "and.b32 %r1, %r0, 1; mul.wide.u32 %rd4, %r1, 64; add.s64 %rd5, %rd1, %rd4;\n";
  EXPECT_EQ(Count(turns + "st.global.u32 [%rd5], %r0;").counts.written_sectors, 2);
  const Counts stores = Count("st.global.u32 [%rd3], %r0;").counts;
  EXPECT_EQ(stores.written_sectors, 4);
  EXPECT_EQ(stores.read_sectors, 0);
  EXPECT_EQ(stores.memory_read, 0);  // What is written is not fetched.
  // Lanes whose predicate does not hold reach nothing.
  EXPECT_EQ(Count("setp.lt.u32 %p1, %r0, 8; @%p1 ld.global.u32 %r1, [%rd3];").counts.read_sectors, 1);
}

TEST(CachesHaveWhatWasRead) {
  const std::string twice = "ld.global.u32 %r1, [%rd3]; ld.global.u32 %r2, [%rd3];";
  EXPECT_EQ(Count(twice).counts.read_sectors, 4);
  EXPECT_EQ(Count(twice).counts.l1_sectors, 4);
  // What must see others' values goes to the L2 each time, and to memory once.
  const Counts passed = Count("ld.volatile.global.u32 %r1, [%rd3]; ld.relaxed.gpu.global.u32 %r2, [%rd3];").counts;
  EXPECT_EQ(passed.read_sectors, 8);
  EXPECT_EQ(passed.l1_sectors, 0);
  EXPECT_EQ(passed.memory_read, 4);
}

TEST(LinesLeaveTheCacheAndAreWrittenBack) {
  const int64_t line = kLineSectors * kSectorBytes, ways = 16;
  Cache cache(ways * line);  // One set.
  EXPECT_EQ(cache.bytes(), ways * line);
  int64_t written = 0;
  const auto back = [&](uint32_t owner) { written += owner; };
  for (uint64_t sector = 0; sector < 3; ++sector) cache.Write(sector, 7, back);
  for (uint64_t other = 1; other < 16; ++other) EXPECT_FALSE(cache.Read(other * kLineSectors, back));
  EXPECT_TRUE(cache.Read(0, back));
  EXPECT_FALSE(cache.Read(3, back));  // Its line is there, it is not.
  EXPECT_EQ(written, 0);
  EXPECT_FALSE(cache.Read(16 * kLineSectors, back));
  EXPECT_FALSE(cache.Read(1 * kLineSectors, back));  // Used longest ago.
  EXPECT_TRUE(cache.Read(0, back));
  for (uint64_t other = 20; other < 36; ++other) cache.Read(other * kLineSectors, back);
  EXPECT_EQ(written, 21);
}

TEST(BothSidesOfABranchAreCounted) {
  const std::string sides =
      "and.b32 %r1, %r0, 1; setp.eq.s32 %p1, %r1, 0; @%p1 bra EVEN;\n"
      "add.s32 %r2, %r0, 1; add.s32 %r2, %r2, 1; add.s32 %r2, %r2, 1; bra DONE;\n"
      "EVEN:\nadd.s32 %r2, %r0, 100; add.s32 %r2, %r2, 100;\nDONE:\nst.global.u32 [%rd3], %r2;";
  const Counted run = Count(sides);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(run.outcome.data[lane], lane + (lane % 2 == 0 ? 200 : 3));
  // Before: mul, and, setp; 3 and 2 in between. Branches: two and the kernel's end.
  EXPECT_EQ(Of(run.counts, Kind::kInteger), 3 + 3 + 2);
  EXPECT_EQ(Of(run.counts, Kind::kBranch), 3);
  EXPECT_EQ(Of(run.counts, Kind::kStore), 1);  // They are together again.
  EXPECT_EQ(run.counts.written_sectors, 4);
}

TEST(ALoopTakesAsLongAsItsLongest) {
  const Counted run = Count(
      "mov.u32 %r1, 0;\nAGAIN:\nadd.s32 %r1, %r1, 1; setp.le.u32 %p1, %r1, %r0; @%p1 bra AGAIN;\n"
      "st.global.u32 [%rd3], %r1;");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(run.outcome.data[lane], lane + 1);
  EXPECT_EQ(Of(run.counts, Kind::kInteger), 1 + 2 * 32);
  EXPECT_EQ(Of(run.counts, Kind::kBranch), 32 + 1);
  EXPECT_EQ(Of(run.counts, Kind::kStore), 1);
}

TEST(LoadsThatWaitForEachOther) {
  // Each of the data's addresses leads to itself: 0 is added.
  const std::string next = "add.s64 %rd6, %rd6, %rd3; ld.volatile.global.u64 %rd6, [%rd6];\n";
  const std::string begin = "mul.wide.u32 %rd2, %r0, 32; add.s64 %rd3, %rd1, %rd2; mov.u64 %rd6, 0;\n";
  const Counts chained = Count(begin + next + next + next + "st.global.u64 [%rd3], %rd6;").counts;
  EXPECT_EQ(chained.chain, 3);
  EXPECT_TRUE(chained.cycles > kMemoryLatency + 2 * kL2Latency);
  const std::string beside =
      "ld.volatile.global.u32 %r1, [%rd3]; ld.volatile.global.u32 %r2, [%rd3+256]; ld.volatile.global.u32 %r3, "
      "[%rd3+512];\n";
  const Counts apart =
      Count(beside + "add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r3; st.global.u32 [%rd3], %r1;").counts;
  EXPECT_EQ(apart.chain, 1);
  EXPECT_TRUE(apart.cycles > kMemoryLatency && apart.cycles < 2 * kMemoryLatency);
  // A branch that needs a value lets nothing behind it begin.
  const Counts branch =
      Count(
          "ld.volatile.global.u32 %r1, [%rd3]; setp.eq.u32 %p1, %r1, 1; @%p1 bra DONE;\n"
          "ld.volatile.global.u32 %r2, [%rd3+256]; add.s32 %r2, %r2, 1; st.global.u32 [%rd3], %r2;\nDONE:")
          .counts;
  EXPECT_EQ(branch.chain, 1);
  EXPECT_TRUE(branch.cycles > 2 * kMemoryLatency);
}

// A register has the longest chain of its lanes, of which others may have written it since.
TEST(ChainsOfPartOfAWarp) {
  const Counts counts =
      Count(
          "ld.volatile.global.u64 %rd6, [%rd1]; setp.lt.u32 %p1, %r0, 16; add.s64 %rd7, %rd6, %rd1;\n"
          "@%p1 ld.volatile.global.u64 %rd8, [%rd7]; @!%p1 mov.u64 %rd8, 0; add.s64 %rd9, %rd8, %rd1;\n"
          "ld.volatile.global.u64 %rd10, [%rd9];")
          .counts;
  EXPECT_EQ(counts.chain, 3);
}

TEST(AtomicsAreCountedAndComputed) {
  const Counted one = Count("atom.global.add.u32 %r1, [%rd1], 3;", 96);
  EXPECT_EQ(one.outcome.data[0], 288u);
  EXPECT_EQ(one.counts.atomic_sectors, 3);
  EXPECT_EQ(one.counts.memory_read, 1);
  EXPECT_EQ(one.counts.chain, 3);  // One of each of the three warps.
  const Counted each = Count("red.global.add.u32 [%rd3], %r0;");
  EXPECT_EQ(each.counts.atomic_sectors, 4);
  EXPECT_EQ(each.counts.chain, 0);  // Nobody waits.
  EXPECT_EQ(each.outcome.data[31], 31u);
}

TEST(BanksOfSharedMemory) {
  const std::string load = "ld.shared.u32 %r3, [%r2];";
  EXPECT_EQ(Wavefronts("shl.b32 %r2, %r0, 2;", load), 1);
  EXPECT_EQ(Wavefronts("shl.b32 %r2, %r0, 3;", load), 2);
  EXPECT_EQ(Wavefronts("shl.b32 %r2, %r0, 7; and.b32 %r2, %r2, 4095;", load), 32);
  EXPECT_EQ(Wavefronts("mov.u32 %r2, 64;", load), 1);  // All take one word.
  EXPECT_EQ(Wavefronts("shl.b32 %r2, %r0, 3;", "ld.shared.u64 %rd6, [%r2];"), 2);
  EXPECT_EQ(Wavefronts("mov.u32 %r2, 64;", "atom.shared.add.u32 %r3, [%r2], 1;"), 32);
}

TEST(LanesThatPartedMeet) {
  // Halves vote by themselves, then all take a neighbour's value.
  const Counted run = Count(
      "setp.gt.u32 %p1, %r0, 15; and.b32 %r3, %r0, 1; setp.eq.s32 %p2, %r3, 1; @%p1 bra HIGH;\n"
      "vote.sync.ballot.b32 %r1, %p2, 0xffff; activemask.b32 %r4; bra DONE;\n"
      "HIGH:\nvote.sync.ballot.b32 %r1, %p2, 0xffff0000; activemask.b32 %r4;\nDONE:\n"
      "shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; match.any.sync.b32 %r5, %r3, -1; add.s32 %r1, %r2, %r4;\n"
      "add.s32 %r1, %r1, %r5; st.global.u32 [%rd3], %r1;");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t other = lane < 16 ? 0xaaaa0000u : 0xaaaau, own = lane < 16 ? 0xffffu : 0xffff0000u;
    EXPECT_EQ(run.outcome.data[lane], other + own + (0x55555555u << lane % 2));
  }
  EXPECT_EQ(Of(run.counts, Kind::kVote), 4);
  EXPECT_EQ(Of(run.counts, Kind::kShuffle), 1);
  EXPECT_EQ(Of(run.counts, Kind::kMatch), 1);
}

TEST(WhoHasEndedIsNotWaitedFor) {
  const Counted run = Count(
      "setp.gt.u32 %p1, %r0, 9; @%p1 bra LATER; vote.sync.ballot.b32 %r1, 1, -1; st.global.u32 [%rd3], %r1; ret;\n"
      "LATER:\nst.global.u32 [%rd3], 7;");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(run.outcome.data[lane], lane > 9 ? 7u : 0x3ffu);
}

TEST(WhoSpinsLetsOthersGoOn) {
  // All but one wait at a lower place for what that one writes behind them; then each in turn takes a lock.
  const Counted flag = Count(
      "setp.eq.u32 %p1, %r0, 5; @%p1 bra WRITE;\nWAIT:\nld.volatile.global.u32 %r1, [%rd1+4000]; setp.eq.u32 %p2, %r1, "
      "0; @%p2 bra WAIT; bra DONE;\nWRITE:\nst.volatile.global.u32 [%rd1+4000], 9; mov.u32 %r1, 9;\nDONE:\n"
      "st.global.u32 [%rd3], %r1;",
      64);
  for (uint32_t rank = 0; rank < 64; ++rank) EXPECT_EQ(flag.outcome.data[rank], 9u);
  const Counted lock = Count(
      "AGAIN:\natom.global.cas.b32 %r1, [%rd1+4000], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;\n"
      "ld.volatile.global.u32 %r2, [%rd1+4004]; add.s32 %r2, %r2, 1; st.volatile.global.u32 [%rd1+4004], %r2;\n"
      "membar.gl; st.volatile.global.u32 [%rd1+4000], 0;",
      64);
  EXPECT_EQ(lock.outcome.data[1001], 64u);
}

TEST(BlocksMeetAtBarriersInLockstep) {
  const Counted run = Count(
      ".shared .align 4 .b8 all[384];\nshl.b32 %r2, %r0, 2; mov.u32 %r3, all; add.s32 %r4, %r3, %r2; st.shared.u32 "
      "[%r4], %r0;\nbar.sync 0;\nsub.s32 %r5, 380, %r2; add.s32 %r5, %r5, %r3; ld.shared.u32 %r1, [%r5];\n"
      "st.global.u32 [%rd3], %r1;",
      96);
  for (uint32_t rank = 0; rank < 96; ++rank) EXPECT_EQ(run.outcome.data[rank], 95 - rank);
  EXPECT_EQ(run.counts.warps, 3);
  EXPECT_EQ(Of(run.counts, Kind::kBarrier), 3);
  // A warp without a load waits for the one that has it.
  const Counts late = Count(
                          "setp.gt.u32 %p1, %r0, 31; @%p1 bra BAR; ld.global.u32 %r1, [%rd3]; add.s32 %r1, %r1, 1;\n"
                          "st.global.u32 [%rd3], %r1;\nBAR:\nbar.sync 0;",
                          64)
                          .counts;
  EXPECT_TRUE(late.cycles > 2 * kMemoryLatency);
  // Who waits for nobody is found here, too.
  Counter counter(kL2);
  const Outcome stuck = Run(KernelText(kPlace + "setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW; bar.sync 0; bra DONE;\n"
                                                "LOW:\nvote.sync.ballot.b32 %r1, 1, -1;\nDONE:"),
                            std::vector<uint32_t>(64), {}, {32}, 1, &counter);
  EXPECT_TRUE(stuck.fault.find("nobody can go on") != std::string::npos);
}

TEST(FunctionsAreCalledByPartOfAWarp) {
  const std::string square =
      ".func (.param .b32 out) square(\n .param .b32 in\n)\n{\n.reg .b32 %r<9000>;\nld.param.b32 %r8990, [in];\n"
      "mul.lo.u32 %r8991, %r8990, %r8990;\nst.param.b32 [out+0], %r8991;\nret;\n}\n";
  const std::string body = kPlace +
                           "mov.u32 %r2, 7; and.b32 %r1, %r0, 1; setp.eq.s32 %p1, %r1, 0; @%p1 bra DONE;\n"
                           "{\n.param .b32 param0;\nst.param.b32 [param0+0], %r0;\n.param .b32 retval0;\n"
                           "call.uni (retval0), square, (param0);\nld.param.b32 %r2, [retval0+0];\n}\nDONE:\n"
                           "st.global.u32 [%rd3], %r2;";
  Counter counter(kL2);
  counter.SetPhase("phase", 0, 0);
  const Outcome outcome =
      Run(kHead + square + KernelText(body).substr(kHead.size()), std::vector<uint32_t>(32), {}, {32}, 1, &counter);
  EXPECT_EQ(outcome.fault, "");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(outcome.data[lane], lane % 2 == 0 ? 7 : lane * lane);
  EXPECT_EQ(Of(counter.all()[0], Kind::kStore), 1);
  // The callee has more registers than the kernel.
  Clock clock;
  clock.values.resize(kSpecials);
  clock.Change(9000);
  EXPECT_EQ(clock.values.size(), 9000u);
}

TEST(PhasesBeginAtNothing) {
  Counter counter(kL2);
  const auto run = [&] {
    Run(KernelText(kPlace + "ld.global.u32 %r1, [%rd3];"), std::vector<uint32_t>(64), {3}, {32}, 1, &counter);
  };
  run();
  EXPECT_TRUE(counter.all().empty());
  counter.SetPhase("phase", 0, 0);
  run();
  run();
  EXPECT_EQ(counter.all()[0].launches, 2);
  EXPECT_EQ(counter.all()[0].blocks, 6);
  counter.SetPhase("phase", 0, 0);
  run();
  EXPECT_EQ(counter.all()[0].launches, 1);
  EXPECT_EQ(counter.all()[0].warps, 3);
  counter.SetPhase(nullptr, 0, 0);
  run();
  EXPECT_EQ(counter.all()[0].launches, 1);
}

TEST(WrittenSectorsBelongToTheirPhase) {
  const auto written = [](const char* second) {
    Counter counter(16 * kLineSectors * kSectorBytes);  // One set.
    const auto run = [&](const std::string& body) {
      Run(KernelText(kPlace + body), std::vector<uint32_t>(4096), {}, {64}, 1, &counter);
    };
    counter.SetPhase("first", 0, 0);
    run("st.global.u32 [%rd3], %r0;");
    if (second != nullptr) counter.SetPhase(second, 0, 0);
    run("mul.wide.u32 %rd4, %r0, 128; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r1, [%rd5+8192];");
    return counter.all()[0].memory_written;
  };
  EXPECT_EQ(written(nullptr), 8);
  EXPECT_EQ(written("second"), 0);
}

TEST(InstructionsHaveTheirKinds) {
  EXPECT_TRUE(KindOf("add.s32") == Kind::kInteger && KindOf("add.s64") == Kind::kInteger64);
  EXPECT_TRUE(KindOf("mul.wide.u32") == Kind::kInteger && KindOf("mul.lo.s64") == Kind::kMultiply64);
  EXPECT_TRUE(KindOf("mul.hi.u64") == Kind::kMultiplyHigh64 && KindOf("rem.u64") == Kind::kDivide64);
  EXPECT_TRUE(KindOf("div.u32") == Kind::kDivide32 && KindOf("div.rn.f32") == Kind::kDivideFloat);
  EXPECT_TRUE(KindOf("fma.rn.f32") == Kind::kFloat && KindOf("fma.rn.f64") == Kind::kDouble);
  EXPECT_TRUE(KindOf("sqrt.rn.f64") == Kind::kDivideDouble && KindOf("setp.lt.f32") == Kind::kInteger);
  EXPECT_TRUE(KindOf("ld.param.u64") == Kind::kFree && KindOf("ld.global.nc.v4.u32") == Kind::kLoad);
  EXPECT_TRUE(KindOf("mov.b64") == Kind::kFree && KindOf("cvt.u64.u32") == Kind::kFree);
  EXPECT_TRUE(KindOf("cvt.s64.s32") == Kind::kInteger && KindOf("cvt.rn.f32.s64") == Kind::kSpecial);
  EXPECT_TRUE(KindOf("popc.b32") == Kind::kSpecial && KindOf("red.global.add.u32") == Kind::kAtomic);
}

}  // namespace tf_booster::ptx
