// Three lanes: the crc32 instruction has a latency of 3 cycles and a throughput of 1, so one chain of it runs at a
// third of the speed. A block of 3·n bytes is read as three chains of n bytes, which are joined at the end:
//
//   crc(A B C) = crc(A) · x^(16n)  +  crc(B) · x^(8n)  +  crc(C)      modulo P, the polynomial.
//
// A product by x^(8n) is one carry-less multiplication by a constant and one crc32. Bits are reflected: bit i of a
// 32-bit register stands for x^(31-i), so the product of two registers has bit m for x^(62-m), which read as a 64-bit
// register (bit m for x^(63-m)) is the product times x; crc32 of a 64-bit word multiplies by x^32 and reduces. Both
// together multiply by x^33, so the constant for n bytes is x^(8n-33) mod P. For n = 8 that is x^31, the register 1;
// and crc32 of a constant gives the next one, for it stands in the low half of a 64-bit word (x^32) and is multiplied
// by x^32: 64 bits, 8 bytes.
//
// Records have any length, so there is a constant for every lane of 8, 16, … 1024 bytes, 1 KiB in all, and most records
// are one block: a record of 500 bytes costs 21 steps, one join and a tail of 20 bytes at the most.
#include "cc/core/record_reader/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define TFB_HAS_CRC_INSTRUCTION 1
#endif

namespace tf_booster {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // Reflected.

struct Tables {
  uint32_t at[8][256];
};

constexpr Tables MakeTables() {
  Tables t{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    t.at[0][byte] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (int byte = 0; byte < 256; ++byte) {
      t.at[k][byte] = (t.at[k - 1][byte] >> 8) ^ t.at[0][t.at[k - 1][byte] & 0xff];
    }
  }
  return t;
}

constexpr Tables kTables = MakeTables();

uint64_t Load64(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

uint32_t ScalarCrc(const uint8_t* p, size_t size) {
  uint32_t crc = 0xffffffffu;
  for (; size >= 8; p += 8, size -= 8) {
    const uint64_t word = Load64(p) ^ crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kTables.at[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; ++p, --size) crc = (crc >> 8) ^ kTables.at[0][(crc ^ *p) & 0xff];
  return ~crc;
}

#ifdef TFB_HAS_CRC_INSTRUCTION

constexpr size_t kMaxLaneWords = 128;
constexpr size_t kMinBlock =
    96;  // Below, one chain is as fast as three and a join (measured on Zen 5: 80 to 110 bytes).

// shift.by[w]: the constant for lanes of w words; by[2w] serves the first lane, which is two lanes from the end.
struct ShiftConstants {
  uint32_t by[2 * kMaxLaneWords + 1];
};

constexpr ShiftConstants MakeShiftConstants() {
  ShiftConstants shift{};
  uint32_t power = 1;  // x^31
  for (size_t words = 1; words <= 2 * kMaxLaneWords; ++words) {
    shift.by[words] = power;
    for (int bit = 0; bit < 64; ++bit) power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  }
  return shift;
}

constexpr ShiftConstants kShift = MakeShiftConstants();

__attribute__((target("sse4.2,pclmul"))) inline uint64_t Shifted(uint64_t crc, uint32_t constant) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(crc)),
                                               _mm_cvtsi32_si128(static_cast<int32_t>(constant)), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) uint32_t Sse42Crc(const uint8_t* p, size_t size) {
  uint64_t crc = 0xffffffffu;
  while (size >= kMinBlock) {
    const size_t words = size / 24 < kMaxLaneWords ? size / 24 : kMaxLaneWords;
    const uint8_t* const p1 = p + 8 * words;
    const uint8_t* const p2 = p1 + 8 * words;
    uint64_t lane1 = 0, lane2 = 0;
    for (size_t i = 0; i < 8 * words; i += 8) {
      crc = _mm_crc32_u64(crc, Load64(p + i));
      lane1 = _mm_crc32_u64(lane1, Load64(p1 + i));
      lane2 = _mm_crc32_u64(lane2, Load64(p2 + i));
    }
    // The two products are added before the one reduction.
    crc = lane2 ^ _mm_crc32_u64(0, Shifted(crc, kShift.by[2 * words]) ^ Shifted(lane1, kShift.by[words]));
    p += 24 * words;
    size -= 24 * words;
  }
  for (; size >= 8; p += 8, size -= 8) crc = _mm_crc32_u64(crc, Load64(p));
  if ((size & 4) != 0) {
    uint32_t word;
    std::memcpy(&word, p, sizeof(word));
    crc = _mm_crc32_u32(static_cast<uint32_t>(crc), word);
    p += 4;
  }
  for (size &= 3; size > 0; ++p, --size) crc = _mm_crc32_u8(static_cast<uint32_t>(crc), *p);
  return ~static_cast<uint32_t>(crc);
}

#endif

}  // namespace

CrcLevel BestCrcLevel() {
#ifdef TFB_HAS_CRC_INSTRUCTION
  static const CrcLevel best =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") ? CrcLevel::kSse42 : CrcLevel::kScalar;
  return best;
#else
  return CrcLevel::kScalar;
#endif
}

uint32_t Crc32c(const void* data, size_t size, CrcLevel level) {
  const uint8_t* const bytes = static_cast<const uint8_t*>(data);
#ifdef TFB_HAS_CRC_INSTRUCTION
  if (level == CrcLevel::kSse42) return Sse42Crc(bytes, size);
#endif
  return ScalarCrc(bytes, size);
}

uint32_t Crc32c(const void* data, size_t size) { return Crc32c(data, size, BestCrcLevel()); }

}  // namespace tf_booster
