// The machine itself, on small programs whose results the PTX manual tells.
#include "cc/ptx_machine/machine.h"

#include <limits>

#include "cc/core/base/test.h"
#include "cc/ptx_machine/registers.h"
#include "cc/ptx_machine/test_kernel.h"

namespace tf_booster::ptx {
namespace {

constexpr uint64_t kSeeds = 20;

void ExpectFault(const std::string& body, const std::string& wanted, int threads = 1) {
  const Outcome outcome = Run(KernelText(body), std::vector<uint32_t>(64), {}, {static_cast<uint32_t>(threads)});
  if (outcome.fault.find(wanted) == std::string::npos) EXPECT_EQ(outcome.fault, wanted);
}

// The result of one instruction; operands are taken from registers of their size.
template <class Result, class... Operands>
Result Compute(const std::string& name, Operands... operands) {
  const auto letter = [](size_t bytes) { return bytes == 8 ? "%rd" : bytes == 4 ? "%r" : "%rs"; };
  const uint64_t values[] = {ToBits(operands)...};
  const size_t sizes[] = {sizeof(operands)...};
  std::string body, list = std::string(letter(sizeof(Result))) + "2";
  std::vector<uint32_t> data;
  for (size_t i = 0; i < sizeof...(Operands); ++i) {
    const std::string which = letter(sizes[i]) + std::to_string(i + 3);
    body +=
        "ld.global.b" + std::to_string(8 * sizes[i]) + " " + which + ", [%rd1+" + std::to_string(8 * i + 8) + "];\n";
    list += ", " + which;
    data.push_back(static_cast<uint32_t>(values[i]));
    data.push_back(static_cast<uint32_t>(values[i] >> 32));
  }
  data.insert(data.begin(), {0, 0});
  body += name + " " + list + ";\nst.global.b" + std::to_string(8 * sizeof(Result)) + " [%rd1], " +
          letter(sizeof(Result)) + "2;";
  const Outcome outcome = Run(KernelText(body), data, {}, {});
  EXPECT_EQ(outcome.fault, "");
  return FromBits<Result>(uint64_t{outcome.data[1]} << 32 | outcome.data[0]);
}
bool Holds(const std::string& comparison, float a, float b) {
  const std::string body = "ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; setp." + comparison +
                           ".f32 %p1, %f1, %f2; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd1], %r1;";
  return Run(KernelText(body), {static_cast<uint32_t>(ToBits(a)), static_cast<uint32_t>(ToBits(b))}, {}, {}).data[0] ==
         1;
}

// Each thread stores what `body` leaves in %r1.
std::vector<uint32_t> PerThread(const std::string& body, int threads, uint64_t seed = 1) {
  const Outcome outcome = Run(KernelText("mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2;\n" +
                                         body + "\nst.global.u32 [%rd3], %r1;"),
                              std::vector<uint32_t>(threads), {}, {static_cast<uint32_t>(threads)}, seed);
  EXPECT_EQ(outcome.fault, "");
  return outcome.data;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

}  // namespace

TEST(IntegersWrapAround) {
  EXPECT_EQ(Compute<int32_t>("add.s32", 2147483647, 1), -2147483647 - 1);
  EXPECT_EQ(Compute<int64_t>("sub.s64", kLeast, int64_t{1}), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Compute<uint32_t>("mul.lo.u32", 0x10001u, 0x10001u), 0x20001u);
  EXPECT_EQ(Compute<int64_t>("mul.wide.s32", -3, 1 << 30), -3 * (int64_t{1} << 30));
  EXPECT_EQ(Compute<uint64_t>("mul.hi.u64", ~uint64_t{0}, ~uint64_t{0}), ~uint64_t{1});
  EXPECT_EQ(Compute<int32_t>("mul.hi.s32", -1, 1), -1);
  EXPECT_EQ(Compute<int32_t>("mad.lo.s32", 7, -3, 1), -20);
  EXPECT_EQ(Compute<int64_t>("div.s64", kLeast, int64_t{-1}), kLeast);
  EXPECT_EQ(Compute<int32_t>("div.s32", -7, 2), -3);
  EXPECT_EQ(Compute<int32_t>("rem.s32", -7, 2), -1);
  EXPECT_EQ(Compute<int64_t>("min.s64", int64_t{-1}, int64_t{1}), -1);
  EXPECT_EQ(Compute<uint64_t>("min.u64", ~uint64_t{0}, uint64_t{1}), 1u);
  ExpectFault("mov.u32 %r1, 0; div.u32 %r2, 1, %r1;", "division");
}

TEST(BitsGoWhereTheyShould) {
  EXPECT_EQ(Compute<int32_t>("shr.s32", -8, 40), -1);
  EXPECT_EQ(Compute<uint32_t>("shr.u32", 0x80000000u, 31), 1u);
  EXPECT_EQ(Compute<uint32_t>("shl.b32", 1u, 32), 0u);
  EXPECT_EQ(Compute<uint64_t>("shl.b64", uint64_t{1}, 63), uint64_t{1} << 63);
  EXPECT_EQ(Compute<uint32_t>("not.b32", 0xffff0000u), 0xffffu);
  EXPECT_EQ(Compute<uint32_t>("brev.b32", 0x1u), 0x80000000u);
  EXPECT_EQ(Compute<uint32_t>("popc.b64", ~uint64_t{0}), 64u);
  EXPECT_EQ(Compute<uint32_t>("clz.b32", 0u), 32u);
  EXPECT_EQ(Compute<uint32_t>("clz.b64", uint64_t{1}), 63u);
  EXPECT_EQ(Compute<uint32_t>("bfind.u32", 0x100u), 8u);
  EXPECT_EQ(Compute<uint32_t>("bfind.shiftamt.u32", 0x100u), 23u);
  EXPECT_EQ(Compute<uint32_t>("bfind.shiftamt.u32", 0u), ~0u);
  EXPECT_EQ(Compute<uint32_t>("bfi.b32", 0xffu, 0x12345678u, 8, 4), 0x12345f78u);
  EXPECT_EQ(Compute<uint32_t>("bmsk.clamp.b32", 4u, 8u), 0xff0u);
  EXPECT_EQ(Compute<uint32_t>("bmsk.clamp.b32", 28u, 40u), 0xf0000000u);
  EXPECT_EQ(Compute<uint32_t>("bmsk.clamp.b32", 40u, 3u), 0u);
  EXPECT_EQ(Compute<uint32_t>("bmsk.clamp.b32", 0u, 32u), ~0u);
  EXPECT_EQ(Compute<int32_t>("bfe.s32", 0xf0, 4, 4), -1);
  EXPECT_EQ(Compute<uint32_t>("bfe.u32", 0xf0u, 4, 4), 15u);
  EXPECT_EQ(Compute<uint32_t>("shf.l.wrap.b32", 0x80000000u, 1u, 33), 3u);
  EXPECT_EQ(Compute<uint32_t>("shf.r.wrap.b32", 0x80000000u, 1u, 31), 3u);
  EXPECT_EQ(Compute<uint32_t>("shf.r.clamp.b32", 5u, 7u, 32), 7u);
  EXPECT_EQ(Compute<uint32_t>("prmt.b32", 0x33221100u, 0x77665584u, 0xc740u), 0xff778400u);
}

TEST(NumbersAreRoundedAndCompared) {
  EXPECT_EQ(Compute<float>("add.rn.f32", 1.0f, 0x1p-24f), 1.0f);
  EXPECT_EQ(Compute<float>("fma.rn.f32", 1.0f + 0x1p-23f, 1.0f - 0x1p-23f, -1.0f), -0x1p-46f);
  EXPECT_EQ(Compute<float>("sqrt.rn.f32", 2.0f), std::sqrt(2.0f));
  EXPECT_EQ(Compute<double>("div.rn.f64", 1.0, 3.0), 1.0 / 3.0);
  EXPECT_EQ(Compute<float>("min.f32", kNan, 2.0f), 2.0f);
  EXPECT_TRUE(std::signbit(Compute<float>("min.f32", 0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(Compute<float>("max.f32", -0.0f, 0.0f)));
  EXPECT_EQ(ToBits(Compute<float>("sub.rn.f32", kInfinity, kInfinity)), 0x7fffffffu);  // A card's NaN.
  EXPECT_EQ(Compute<int32_t>("cvt.rzi.s32.f32", 3e9f), 2147483647);
  EXPECT_EQ(Compute<int32_t>("cvt.rzi.s32.f32", -1.9f), -1);
  EXPECT_EQ(Compute<int32_t>("cvt.rmi.s32.f32", -1.1f), -2);
  EXPECT_EQ(Compute<int32_t>("cvt.rni.s32.f32", 2.5f), 2);
  EXPECT_EQ(Compute<int32_t>("cvt.rzi.s32.f32", kNan), 0);
  EXPECT_EQ(Compute<uint32_t>("cvt.rzi.u32.f32", -5.0f), 0u);
  EXPECT_EQ(Compute<float>("cvt.rn.f32.u64", ~uint64_t{0}), 0x1p64f);
  EXPECT_EQ(Compute<int64_t>("cvt.s64.s32", -2), -2);
  EXPECT_EQ(Compute<uint64_t>("cvt.u64.u32", 0xfffffffeu), 0xfffffffeu);
  EXPECT_EQ(Compute<int32_t>("cvt.s32.s8", 0x80), -128);
  EXPECT_TRUE(Holds("lt", 1, 2) && !Holds("lt", 2, 2) && Holds("le", 2, 2) && Holds("ge", 2, 2) && Holds("gt", 3, 2));
  EXPECT_TRUE(!Holds("lt", kNan, 2) && !Holds("ge", kNan, 2) && !Holds("ne", kNan, 2) && !Holds("eq", kNan, kNan));
  EXPECT_TRUE(Holds("ltu", kNan, 2) && Holds("geu", 2, kNan) && Holds("neu", kNan, kNan) && Holds("equ", kNan, 1));
  EXPECT_TRUE(Holds("nan", kNan, 2) && !Holds("num", kNan, 2) && Holds("num", 1, 2) && !Holds("ltu", 3, 2));
}

TEST(VectorsAreTakenApart) {
  const Outcome outcome =
      Run(KernelText("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"
                     "mov.b64 %rd4, {%r1, %r2}; mov.b64 {%r5, %r6}, %rd4; mov.b32 {%rs1, %rs2}, %r3;\n"
                     "cvt.u32.u16 %r7, %rs2; st.global.v4.b32 [%rd1], {%r6, %r5, %r7, %r4};"),
          {1, 2, 0x50003, 4}, {}, {});
  EXPECT_TRUE(outcome.data == std::vector<uint32_t>({2, 1, 5, 4}));
}

TEST(AddressesAreChecked) {
  ExpectFault("ld.global.u32 %r1, [%rd1+256];", "in no allocation");
  ExpectFault("ld.global.u32 %r1, [%rd1+-4];", "in no allocation");
  ExpectFault("mov.u32 %r1, 0; ld.global.v2.u32 {%r1, %r2}, [%rd1+4];", "no multiple of 8");
  ExpectFault("mov.u64 %rd2, 64; st.global.u32 [%rd2], 1;", "in no allocation");
  ExpectFault(".shared .align 4 .b8 few[16]; mov.u32 %r1, few; ld.shared.u32 %r2, [%r1+16];", "of shared memory");
  ExpectFault(".local .align 4 .b8 own[8]; mov.u64 %rd2, own; st.local.u32 [%rd2+16], 1;", "of local memory");
  ExpectFault("ld.param.u32 %r1, [data+8];", "of parameters");
}

TEST(GenericAddressesHaveTheirSpace) {
  const std::vector<uint32_t> out = PerThread(
      ".local .align 4 .b8 own[8]; .shared .align 4 .b8 all[256];\n"
      "mov.u64 %rd4, own; cvta.local.u64 %rd5, %rd4; st.u32 [%rd5+4], %r0; ld.local.u32 %r1, [%rd4+4];\n"
      "mov.u64 %rd6, all; cvta.shared.u64 %rd7, %rd6; add.s64 %rd8, %rd7, %rd2; st.u32 [%rd8], %r1;\n"
      "cvta.to.shared.u64 %rd9, %rd8; cvt.u32.u64 %r2, %rd9; ld.shared.u32 %r1, [%r2];",
      64);
  for (uint32_t rank = 0; rank < 64; ++rank) EXPECT_EQ(out[rank], rank);
}

TEST(LanesExchangeWhatTheyHave) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<uint32_t> down = PerThread("shfl.sync.down.b32 %r1, %r0, 3, 31, -1;", 64, seed);
    const std::vector<uint32_t> up =
        PerThread("shfl.sync.up.b32 %r1|%p1, %r0, 2, 0, -1; @!%p1 mov.u32 %r1, 99;", 64, seed);
    // Groups of four, as __shfl_sync with a width of 4 asks for them.
    const std::vector<uint32_t> first = PerThread("shfl.sync.idx.b32 %r1, %r0, 1, 7171, -1;", 64, seed);
    const std::vector<uint32_t> pairs = PerThread("shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;", 64, seed);
    for (uint32_t rank = 0; rank < 64; ++rank) {
      EXPECT_EQ(down[rank], rank % 32 < 29 ? rank + 3 : rank);
      EXPECT_EQ(up[rank], rank % 32 < 2 ? 99 : rank - 2);
      EXPECT_EQ(first[rank], rank / 4 * 4 + 1);
      EXPECT_EQ(pairs[rank], rank ^ 1);
    }
  }
}

TEST(OnlyThoseVoteWhoAreNamed) {
  const std::string halves =
      "and.b32 %r2, %r0, 16; setp.eq.s32 %p1, %r2, 0; and.b32 %r3, %r0, 1; setp.eq.s32 %p2, %r3, 1;\n"
      "@%p1 bra LOW;\nvote.sync.ballot.b32 %r1, %p2, 0xffff0000; bra DONE;\nLOW:\nvote.sync.ballot.b32 %r1, %p2, "
      "0xffff;\nDONE:";
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<uint32_t> out = PerThread(halves, 64, seed);
    for (uint32_t rank = 0; rank < 64; ++rank) EXPECT_EQ(out[rank], rank % 32 < 16 ? 0xaaaau : 0xaaaa0000u);
  }
  const std::vector<uint32_t> same =
      PerThread("and.b32 %r2, %r0, 3; cvt.u64.u32 %rd4, %r2; match.any.sync.b64 %r1, %rd4, -1;", 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(same[lane], 0x11111111u << lane % 4);
  // Who has ended is not waited for.
  const std::vector<uint32_t> some = PerThread(
      "mov.u32 %r1, 7; st.global.u32 [%rd3], %r1; setp.gt.u32 %p1, %r0, 9; @%p1 ret; vote.sync.ballot.b32 %r1, 1, -1;",
      32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(some[lane], lane > 9 ? 7u : 0x3ffu);
}

TEST(ActiveLanesAreAmongThoseThere) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<uint32_t> out = PerThread(
        "mov.u32 %r1, 0; and.b32 %r2, %r0, 1; setp.eq.s32 %p1, %r2, 1; @%p1 bra DONE; activemask.b32 %r3;\n"
        "vote.sync.ballot.b32 %r4, 1, %r3; setp.eq.s32 %p2, %r4, %r3; selp.b32 %r1, %r3, 0, %p2;\nDONE:",
        32, seed);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(out[lane] >> lane & 1, lane % 2 == 0 ? 1u : 0u);
      EXPECT_EQ(out[lane] & 0xaaaaaaaau, 0u);
    }
  }
}

TEST(WhoWaitsForNobodyIsFound) {
  // All 32 lanes are named, and half of them go another way.
  ExpectFault(
      "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW; bar.sync 0; bra DONE;\n"
      "LOW:\nvote.sync.ballot.b32 %r1, 1, -1;\nDONE:",
      "nobody can go on", 32);
  ExpectFault(
      "mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; @%p1 bra ONE; bar.warp.sync 0xfffffffe; bra DONE;\n"
      "ONE:\nvote.sync.ballot.b32 %r1, 1, 2;\nDONE:",
      "without the lane itself", 32);
  ExpectFault("mov.u32 %r0, %tid.x; setp.gt.u32 %p1, %r0, 3; @%p1 ret; shfl.sync.idx.b32 %r1, %r0, 5, 31, -1;",
              "which is not among those", 32);
}

TEST(BarriersHoldBlocksTogether) {
  const std::string reversed =
      ".shared .align 4 .b8 all[384];\nshl.b32 %r2, %r0, 2; mov.u32 %r3, all; add.s32 %r4, %r3, %r2; st.shared.u32 "
      "[%r4], %r0;\n"
      "bar.sync 0;\nsub.s32 %r5, 380, %r2; add.s32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5];\n"
      "setp.eq.s32 %p1, %r0, 77; bar.red.or.pred %p2, 0, %p1; selp.u32 %r7, 1000, 0, %p2; add.s32 %r1, %r6, %r7;";
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<uint32_t> out = PerThread(reversed, 96, seed);
    for (uint32_t rank = 0; rank < 96; ++rank) EXPECT_EQ(out[rank], 1000 + 95 - rank);
  }
}

TEST(AtomicsLoseNothing) {
  // An addition, and the same by compare-and-swap, whose loads are old at times.
  const std::string body =
      "atom.global.add.u32 %r1, [%rd1], 3; mov.u32 %r2, %ctaid.x; atom.global.max.s32 %r3, [%rd1+4], %r2;\n"
      "AGAIN:\nld.volatile.global.u64 %rd4, [%rd1+8]; add.s64 %rd5, %rd4, 1;\n"
      "atom.global.cas.b64 %rd6, [%rd1+8], %rd4, %rd5; setp.ne.s64 %p1, %rd6, %rd4; @%p1 bra AGAIN;";
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = Run(KernelText(body), {0, 0, 0, 0}, {5}, {100}, seed);
    EXPECT_EQ(outcome.fault, "");
    EXPECT_TRUE(outcome.data == std::vector<uint32_t>({1500, 4, 500, 0}));
  }
}

// What is no atomic loses something for some seed, or the order of threads would hide such mistakes.
TEST(ThreadsComeBetweenEachOther) {
  const std::string body = "ld.global.u32 %r1, [%rd1]; add.s32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;";
  int lost = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    lost += Run(KernelText(body), {0}, {2}, {64}, seed).data[0] < 128;
  }
  EXPECT_TRUE(lost > 0);
}

TEST(FunctionsAreCalled) {
  const std::string square = ".func (.param .b64 out) square(\n .param .b64 in\n)\n;\n";
  const std::string defined =
      ".func (.param .b64 out) square(\n .param .b64 in\n)\n{\n.reg .f64 %fd<3>;\nld.param.f64 %fd1, [in];\n"
      "mul.rn.f64 %fd2, %fd1, %fd1;\nst.param.f64 [out+0], %fd2;\nret;\n}\n";
  const std::string body =
      "ld.global.f64 %fd1, [%rd1];\n{\n.reg .b32 temp_param_reg;\n.param .b64 param0;\nst.param.f64 [param0+0], %fd1;\n"
      ".param .b64 retval0;\ncall.uni (retval0), \nsquare, \n(\nparam0\n);\nld.param.f64 %fd2, [retval0+0];\n}\n"
      "st.global.f64 [%rd1], %fd2;";
  const uint64_t three = ToBits(3.0);
  const std::string kernel = KernelText(body).substr(kHead.size());
  const Outcome outcome = Run(kHead + square + kernel + defined,
                              {static_cast<uint32_t>(three), static_cast<uint32_t>(three >> 32)}, {}, {});
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(FromBits<double>(uint64_t{outcome.data[1]} << 32 | outcome.data[0]), 9.0);
}

TEST(WhatIsNotKnownIsRefused) {
  ExpectFault("frobnicate.u32 %r1, %r2;", "not known");
  ExpectFault("add.sat.s32 %r1, %r2, %r3;", "not known");
  ExpectFault("add.s32 %r1, %r2, %q3;", "not known");
  ExpectFault("ld.global.strange.u32 %r1, [%rd1];", "not known");
  ExpectFault("bra NOWHERE;", "no label");
  ExpectFault("mov.u32 %r1, %r40;", "beyond its family");
}

TEST(MemoryIsGivenBack) {
  Memory memory(1000);
  void* all = memory.AllocateDevice(1000);
  EXPECT_TRUE(all != nullptr && memory.AllocateDevice(1) == nullptr);
  const uint64_t address = reinterpret_cast<uint64_t>(all);
  EXPECT_TRUE(memory.Find(address + 999, 1) != nullptr && memory.Find(address + 999, 2) == nullptr);
  EXPECT_TRUE(memory.Free(all) && !memory.Free(all) && memory.Find(address, 1) == nullptr && memory.used() == 0);
}

}  // namespace tf_booster::ptx
