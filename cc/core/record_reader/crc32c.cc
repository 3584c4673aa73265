// Three lanes: the crc32 instruction has a latency of 3 cycles and a throughput of 1, so one chain of it runs at a
// third of the speed. A block of 3·n bytes is read as three chains of n bytes, which are joined at the end:
//
//   crc(A B C) = crc(A) · x^(16n)  +  crc(B) · x^(8n)  +  crc(C)      modulo P, the polynomial.
//
// A product by x^(8n) is one carry-less multiplication by a constant and one crc32 (crc32c_levels.h).
//
// Records have any length, so there is a constant for every lane of 8, 16, … 1024 bytes, 1 KiB in all, and most records
// are one block: a record of 500 bytes costs 21 steps, one join and a tail of 20 bytes at the most.
#include "cc/core/record_reader/crc32c.h"

#include <cstring>

#include "cc/core/record_reader/crc32c_levels.h"

#ifdef TFB_HAS_CRC_INSTRUCTION
#include <immintrin.h>
#endif

namespace tf_booster {
namespace {

struct Tables {
  uint32_t at[8][256];
};

constexpr Tables MakeTables() {
  Tables t{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrcPolynomial : 0);
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

static_assert(2 * kMaxLaneWords <= CrcShifts::kWords, "the first lane is two lanes from the end");

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
    crc = lane2 ^ _mm_crc32_u64(0, Shifted(crc, kCrcShifts.by[2 * words]) ^ Shifted(lane1, kCrcShifts.by[words]));
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

std::vector<CrcLevel> RunnableCrcLevels() {
  std::vector<CrcLevel> levels = {CrcLevel::kScalar};
#ifdef TFB_HAS_CRC_INSTRUCTION
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) return levels;
  levels.push_back(CrcLevel::kSse42);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("bmi2")) {
    levels.push_back(CrcLevel::kAvx512);
  }
#endif
  return levels;
}

uint32_t Crc32c(const void* data, size_t size, CrcLevel level) {
  const uint8_t* const bytes = static_cast<const uint8_t*>(data);
#ifdef TFB_HAS_CRC_INSTRUCTION
  if (level == CrcLevel::kAvx512 && size >= kLeastForAvx512) return Crc32cByAvx512(bytes, size);
  if (level != CrcLevel::kScalar) return Sse42Crc(bytes, size);
#endif
  return ScalarCrc(bytes, size);
}

uint32_t Crc32c(const void* data, size_t size) {
  static const CrcLevel best = RunnableCrcLevels().back();
  return Crc32c(data, size, best);
}

}  // namespace tf_booster
