// What instructions cost a multiprocessor of a card of compute capability 9.0 (H100, H200), by kind. Machine code is
// not there to be read, so each PTX instruction stands for what ptxas usually makes of it.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_COSTS_H_
#define TF_BOOSTER_CC_PTX_MACHINE_COSTS_H_

#include <array>
#include <cstdint>
#include <string>

namespace tf_booster::ptx {

enum class Kind : uint8_t {
  kFree,
  kFloat,
  kInteger,
  kInteger64,
  kMultiply64,
  kMultiplyHigh64,
  kDivide32,
  kDivide64,
  kDivideFloat,
  kDouble,
  kDivideDouble,
  kSpecial,
  kSpecial64,
  kBranch,
  kVote,
  kShuffle,
  kMatch,
  kBarrier,
  kFence,
  kLoad,
  kStore,
  kAtomic,
  kKinds
};

// Parts of a scheduler's share of a multiprocessor, of which four stand beside each other.
enum class Pipe : uint8_t { kNone, kFloat, kInteger, kDouble, kSpecial, kMemory, kPipes };

struct Cost {
  Kind kind;
  const char* name;
  int slots;  // Instructions of machine code, each of which takes a scheduler one cycle.
  Pipe pipe;
  int cycles;   // So long the scheduler's share of the pipe is busy.
  int latency;  // Until the result can be used. Of memory: beside what the access itself takes.
};

// Cycles: 128 / (results a clock and multiprocessor), column 9.0 of the table "Throughput of Native Arithmetic
// Instructions" in the CUDA C++ Programming Guide: fp32 128; 32-bit integer, shift, logic, compare and most conversions
// 64; fp64 64; clz, popc, brev, reciprocals and conversions of 64-bit types 16; shuffle 32; vote 64. Integers of 64
// bits are "multiple instructions": two for what goes by halves, four IMADs for a product's lower half, eight for the
// upper. Assumed: slots of divisions, which are subroutines, and all of match. Latencies: 4 cycles of an ordinary
// instruction, others after "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture" (arXiv:2402.13499) and
// what was published of Volta and Ampere. No card has confirmed any of them. An access takes the memory pipe one cycle
// of the multiprocessor, 4 of a share, for each piece it comes in (`wavefronts`), which is added where they are
// counted.
inline constexpr std::array<Cost, static_cast<size_t>(Kind::kKinds)> kCosts = {{
    {Kind::kFree, "free", 0, Pipe::kNone, 0, 0},  // Moves, casts, parameters: registers and operands of others.
    {Kind::kFloat, "fp32", 1, Pipe::kFloat, 1, 4},
    {Kind::kInteger, "int32", 1, Pipe::kInteger, 2, 4},
    {Kind::kInteger64, "int64", 2, Pipe::kInteger, 4, 6},
    {Kind::kMultiply64, "mul64", 4, Pipe::kInteger, 8, 14},
    {Kind::kMultiplyHigh64, "mulhi64", 8, Pipe::kInteger, 16, 24},
    {Kind::kDivide32, "div32", 18, Pipe::kInteger, 36, 80},
    {Kind::kDivide64, "div64", 80, Pipe::kInteger, 160, 350},
    {Kind::kDivideFloat, "divfp32", 9, Pipe::kSpecial, 8, 44},
    {Kind::kDouble, "fp64", 1, Pipe::kDouble, 2, 8},
    {Kind::kDivideDouble, "divfp64", 20, Pipe::kDouble, 36, 160},
    {Kind::kSpecial, "special", 1, Pipe::kSpecial, 8, 18},
    {Kind::kSpecial64, "special64", 3, Pipe::kSpecial, 16, 24},
    {Kind::kBranch, "branch", 1, Pipe::kNone, 0, 0},
    {Kind::kVote, "vote", 1, Pipe::kInteger, 2, 12},
    {Kind::kShuffle, "shuffle", 1, Pipe::kMemory, 4, 23},
    {Kind::kMatch, "match", 8, Pipe::kSpecial, 64, 120},
    {Kind::kBarrier, "barrier", 1, Pipe::kNone, 0, 20},
    {Kind::kFence, "fence", 1, Pipe::kNone, 0, 270},
    {Kind::kLoad, "load", 1, Pipe::kMemory, 0, 0},
    {Kind::kStore, "store", 1, Pipe::kMemory, 0, 0},
    {Kind::kAtomic, "atomic", 1, Pipe::kMemory, 0, 0},
}};
constexpr const Cost& CostOf(Kind kind) { return kCosts[static_cast<size_t>(kind)]; }

// Cycles from a load to the use of its value, at 1.98 GHz: the paper above has 29, 41, 263 and 479 at 1.755 GHz of an
// idle H100 PCIe; memory's cycles grow with the clock and with others' accesses.
inline constexpr int kSharedLatency = 30, kL1Latency = 40, kL2Latency = 270, kMemoryLatency = 600;

// By an instruction's name with its types ("mul.lo.s64").
Kind KindOf(const std::string& name);

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_COSTS_H_
