// Loads, stores and atomics.
#include <algorithm>

#include "cc/ptx_machine/registers.h"

namespace tf_booster::ptx {
namespace {

char* Window(Thread& thread, const Instruction& instruction, uint64_t offset, int64_t bytes, char* memory, int64_t size,
             const char* name) {
  if (offset < static_cast<uint64_t>(size) && static_cast<uint64_t>(bytes) <= size - offset) return memory + offset;
  throw Fault(Place(thread, instruction) + ": " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
              " of " + std::to_string(size) + " bytes of " + name);
}

template <class T>
char* Reached(Thread& thread, const Instruction& i) {
  const int64_t bytes = static_cast<int64_t>(sizeof(T)) * i.elements;
  return At(thread, i, AddressOf(thread, i), bytes, bytes);
}

template <class T>
void Load(const Instruction& i, Thread& thread) {
  const char* from = Reached<T>(thread, i);
  for (int e = 0; e < i.elements; ++e) {
    T value;
    std::memcpy(&value, from + e * sizeof(T), sizeof(T));
    Set<T>(thread, i.to[e], value);
  }
}

template <class T>
void Store(const Instruction& i, Thread& thread) {
  char* to = Reached<T>(thread, i);
  for (int e = 0; e < i.elements; ++e) {
    const T value = Get<T>(thread, i.from[1 + e]);
    std::memcpy(to + e * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void RunAtomic(const Instruction& i, Thread& thread) {
  char* word = Reached<T>(thread, i);
  const T value = Get<T>(thread, i.from[1]);
  T before;
  std::memcpy(&before, word, sizeof(T));
  T after = before;
  switch (i.mode) {
    case kAdd:
      after = static_cast<T>(before + value);
      break;
    case kMin:
      after = std::min(before, value);
      break;
    case kMax:
      after = std::max(before, value);
      break;
    case kExchange:
      after = value;
      break;
    case kCompareExchange:
      if (before == value) after = Get<T>(thread, i.from[2]);
      break;
    default:
      if constexpr (std::is_integral_v<T>) {
        after = i.mode == kAnd ? before & value : i.mode == kOr ? before | value : before ^ value;
      }
  }
  std::memcpy(word, &after, sizeof(T));
  Set<T>(thread, i.to[0], before);
}

// f<T>() of the type that PTX calls `type`; null for none.
template <class F>
Instruction::Run OfType(const std::string& type, const F& f) {
  if (type == "u8" || type == "b8") return f(uint8_t{});
  if (type == "s8") return f(int8_t{});
  if (type == "u16" || type == "b16") return f(uint16_t{});
  if (type == "s16") return f(int16_t{});
  if (type == "u32" || type == "b32") return f(uint32_t{});
  if (type == "s32") return f(int32_t{});
  if (type == "u64" || type == "b64") return f(uint64_t{});
  if (type == "s64") return f(int64_t{});
  if (type == "f32") return f(float{});
  if (type == "f64") return f(double{});
  return nullptr;
}

template <class T>
void Pack(const Instruction& i, Thread& thread) {
  uint64_t value = 0;
  for (int e = i.elements; e-- > 0;) value = value << (8 * sizeof(T)) | Get<T>(thread, i.from[e]);
  Set<uint64_t>(thread, i.to[0], value);
}
template <class T>
void Unpack(const Instruction& i, Thread& thread) {
  const uint64_t value = thread.registers[i.from[0]];
  for (int e = 0; e < i.elements; ++e) Set<T>(thread, i.to[e], static_cast<T>(value >> (8 * sizeof(T) * e)));
}

}  // namespace

Space SpaceOf(const Instruction& instruction, uint64_t address) {
  if (instruction.space != Space::kGeneric) return instruction.space;
  switch (address >> 56) {
    case kSharedWindow >> 56:
      return Space::kShared;
    case kLocalWindow >> 56:
      return Space::kLocal;
    case kParameterWindow >> 56:
      return Space::kParameters;
    default:
      return Space::kGlobal;
  }
}

char* At(Thread& thread, const Instruction& instruction, uint64_t address, int64_t bytes, int64_t alignment) {
  if (address % alignment != 0) {
    throw Fault(Place(thread, instruction) + ": " + std::to_string(bytes) +
                " bytes at an address that is no multiple of " + std::to_string(alignment));
  }
  Block& block = *thread.block;
  const Space space = SpaceOf(instruction, address);
  if (instruction.space == Space::kGeneric && space != Space::kGlobal) address = static_cast<uint32_t>(address);
  switch (space) {
    case Space::kShared:
      return Window(thread, instruction, address, bytes, block.shared.data(), static_cast<int64_t>(block.shared.size()),
                    "shared memory");
    case Space::kLocal:
      return Window(thread, instruction, address, bytes, thread.local, block.local_bytes, "local memory");
    case Space::kParameters:
      return Window(thread, instruction, address, bytes, thread.parameters, FunctionOf(thread).parameter_bytes,
                    "parameters");
    default:
      break;
  }
  char* memory = block.machine->memory().Find(address, static_cast<uint64_t>(bytes));
  if (memory != nullptr) return memory;
  char text[40];
  std::snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(address));
  throw Fault(Place(thread, instruction) + ": " + std::to_string(bytes) + " bytes at 0x" + text +
              ", which is in no allocation");
}

Instruction::Run FindLoad(const std::string& type) {
  return OfType(type, [](auto value) { return Instruction::Run{&Load<decltype(value)>}; });
}
Instruction::Run FindStore(const std::string& type) {
  return OfType(type, [](auto value) { return Instruction::Run{&Store<decltype(value)>}; });
}
Instruction::Run FindAtomic(const std::string& type) {
  return OfType(type, [](auto value) { return Instruction::Run{&RunAtomic<decltype(value)>}; });
}
Instruction::Run FindPack(int bits) {
  return bits == 8 ? Pack<uint8_t> : bits == 16 ? Pack<uint16_t> : bits == 32 ? Pack<uint32_t> : nullptr;
}
Instruction::Run FindUnpack(int bits) {
  return bits == 8 ? Unpack<uint8_t> : bits == 16 ? Unpack<uint16_t> : bits == 32 ? Unpack<uint32_t> : nullptr;
}
void RunAddOffset(const Instruction& i, Thread& thread) {
  Set<uint64_t>(thread, i.to[0], thread.registers[i.from[0]] + static_cast<uint64_t>(i.offset));
}
void RunLessOffset(const Instruction& i, Thread& thread) {
  Set<uint64_t>(thread, i.to[0], thread.registers[i.from[0]] - static_cast<uint64_t>(i.offset));
}

}  // namespace tf_booster::ptx
