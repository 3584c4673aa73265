// Values in registers: 64 bits, of which an instruction takes as many as its type has.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_REGISTERS_H_
#define TF_BOOSTER_CC_PTX_MACHINE_REGISTERS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cc/ptx_machine/machine.h"

namespace tf_booster::ptx {

template <class T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Integers keep their sign in all 64 bits, as a load into a wider register does.
template <class T>
uint64_t ToBits(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }
}
inline uint64_t ToBits(uint64_t value) { return value; }
inline uint64_t ToBits(uint32_t value) { return value; }
inline uint64_t ToBits(uint16_t value) { return value; }
inline uint64_t ToBits(uint8_t value) { return value; }
inline uint64_t ToBits(bool value) { return value; }

template <class T>
T Get(const Thread& thread, int32_t which) {
  return FromBits<T>(thread.registers[which]);
}
template <>
inline bool Get<bool>(const Thread& thread, int32_t which) {
  return thread.registers[which] != 0;
}

template <class T>
void Set(Thread& thread, int32_t which, T value) {
  thread.registers[which] = ToBits(value);
}

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_REGISTERS_H_
