// What the levels of CRC-32C share. Part of crc32c.cc.
//
// Bits are reflected: bit i of a 32-bit register stands for x^(31-i), so the product of two registers has bit m for
// x^(62-m), which read as a 64-bit register (bit m for x^(63-m)) is the product times x; crc32 of a 64-bit word
// multiplies by x^32 and reduces. Both together multiply by x^33, so the constant that shifts by n bytes is x^(8n-33)
// mod P. For n = 8 that is x^31, the register 1; and crc32 of a constant gives the next one, for it stands in the low
// half of a 64-bit word (x^32) and is multiplied by x^32: 64 bits, 8 bytes.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_LEVELS_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_LEVELS_H_

#include <cstddef>
#include <cstdint>

namespace tf_booster {

constexpr uint32_t kCrcPolynomial = 0x82F63B78u;  // Reflected.

// by[w]: x^(64w-33) mod P, as a register, which shifts by w words.
struct CrcShifts {
  static constexpr size_t kWords = 256;
  uint32_t by[kWords + 1];
};

constexpr CrcShifts MakeCrcShifts() {
  CrcShifts shifts{};
  uint32_t power = 1;  // x^31
  for (size_t words = 1; words <= CrcShifts::kWords; ++words) {
    shifts.by[words] = power;
    for (int bit = 0; bit < 64; ++bit) power = (power >> 1) ^ ((power & 1) != 0 ? kCrcPolynomial : 0);
  }
  return shifts;
}

inline constexpr CrcShifts kCrcShifts = MakeCrcShifts();

#if defined(__x86_64__)
#define TFB_HAS_CRC_INSTRUCTION 1

// Below, three lanes of the crc32 instruction are as fast. Zen 5, by both: 256 bytes 7.8 and 7.3 ns, 400 10.4 and 11.1,
// 617 15.0 and 11.1, 871 21.9 and 14.0, 1,883 52 and 31.
constexpr size_t kLeastForAvx512 = 256;

// Of kLeastForAvx512 bytes or more, on a machine that runs CrcLevel::kAvx512.
uint32_t Crc32cByAvx512(const uint8_t* p, size_t size);

#endif

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_CRC32C_LEVELS_H_
