// A program for NVIDIA's virtual machine, PTX, as it is when its text has been read: functions of instructions whose
// operands are registers. Constants are registers, too, which have their value when a function begins.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_PROGRAM_H_
#define TF_BOOSTER_CC_PTX_MACHINE_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cc/ptx_machine/costs.h"

namespace tf_booster::ptx {

struct Thread;
struct Function;

// What is wrong with a program's text, or with what it does.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParameters };

// Registers that every function has: where a thread is.
enum Special : int32_t {
  kThreadX,
  kThreadY,
  kThreadZ,
  kThreadsX,
  kThreadsY,
  kThreadsZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kBlocksX,
  kBlocksY,
  kBlocksZ,
  kLaneId,
  kWarpId,
  kLanesEqual,
  kLanesUpTo,
  kLanesBelow,
  kLanesFrom,
  kLanesAbove,
  kLocalBase,  // Where this call's local memory begins.
  kSink,       // Where results go that nobody wants.
  kSpecials
};

struct Call {
  const Function* function = nullptr;
  std::vector<int64_t> arguments;  // Where they are in the caller's parameter space.
  int64_t result = -1;
};

struct Instruction {
  using Run = void (*)(const Instruction&, Thread&);
  Run run = nullptr;
  int32_t guard = -1;  // The predicate that must hold, or not.
  bool unless = false;
  Space space = Space::kGeneric;
  uint8_t elements = 1;  // Of a vector.
  uint8_t mode = 0;      // Which of several: a Meeting, an Atomic.
  Kind kind = Kind::kFree;
  uint8_t bytes = 0;       // That a thread reaches in memory.
  bool passes_l1 = false;  // What others have written must be seen.
  int32_t to[4] = {kSink, kSink, kSink, kSink};
  int32_t from[5] = {kSink, kSink, kSink, kSink, kSink};  // An address comes first, the mask of a warp's lanes last.
  int64_t offset = 0;                                     // Of an address: beside the register from[0].
  uint32_t target = 0;                                    // Of a branch.
  const Call* call = nullptr;
  const char* text = nullptr;  // For messages.
};

struct Parameter {
  int64_t offset, bytes;
};

struct Function {
  std::string name;
  bool entry = false;
  std::string_view head, body;  // Its text; read when it is first needed.
  bool read = false;

  std::vector<Parameter> parameters;
  int64_t parameter_bytes = 0;  // Parameters, then the result, then what it hands to those it calls.
  Parameter result{-1, 0};
  int64_t shared_bytes = 0, local_bytes = 0;
  std::vector<uint64_t> registers;  // The first ones, as they are at the beginning: special ones and constants.
  size_t all_registers = 0;
  std::vector<Instruction> instructions;
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<std::unique_ptr<std::string>> texts;
};

// The text of one compiled source.
class Module {
 public:
  // Finds functions and variables; throws Fault where it meets what it does not know.
  explicit Module(std::string text);

  // Null if there is none of that name. Reads its body the first time.
  const Function* Find(const std::string& name);

  // The memory of its variables.
  std::vector<std::pair<char*, size_t>> Variables() const;

 private:
  friend class FunctionReader;

  std::string text_;
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions_;
  std::map<std::string, std::unique_ptr<std::vector<char>>, std::less<>> variables_;
};

inline constexpr int kMask = 4;  // The place of a mask in `from`.

// What the lanes of a warp do together.
enum Meeting : uint8_t {
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kShuffleFrom,
  kBallot,
  kAll,
  kAny,
  kMatchAny32,
  kMatchAny64,
  kWarpBarrier
};
enum Atomic : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompareExchange };

// What runs an instruction, by its name with types and without what makes no difference here ("add.s32",
// "setp.lt.f64"). Null if it is none that works on registers alone.
Instruction::Run FindOperation(const std::string& name);

// Those that reach memory, by type ("u32"); null for none.
Instruction::Run FindLoad(const std::string& type);
Instruction::Run FindStore(const std::string& type);
Instruction::Run FindAtomic(const std::string& type);

// Those that say what a thread does next, or with whom.
void RunBranch(const Instruction& i, Thread& thread);
void RunCall(const Instruction& i, Thread& thread);
void RunReturn(const Instruction& i, Thread& thread);
void RunExit(const Instruction& i, Thread& thread);
void RunMeeting(const Instruction& i, Thread& thread);
void RunActiveMask(const Instruction& i, Thread& thread);
void RunBarrier(const Instruction& i, Thread& thread);
void RunYield(const Instruction& i, Thread& thread);
void RunNothing(const Instruction& i, Thread& thread);
void RunTrap(const Instruction& i, Thread& thread);
// mov of a vector of smaller registers, by the bits of one of them; and of an address plus `offset`.
Instruction::Run FindPack(int bits);
Instruction::Run FindUnpack(int bits);
void RunAddOffset(const Instruction& i, Thread& thread);
void RunLessOffset(const Instruction& i, Thread& thread);

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_PROGRAM_H_
