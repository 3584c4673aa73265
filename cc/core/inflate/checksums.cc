// CRC-32 by folding: a message is a polynomial, and what matters is its remainder modulo P. So 128 bits, high half H of
// degree 64 and low half L, that stand n bits before the end may be replaced by
//
//   H · (x^(n+64) mod P)  +  L · (x^n mod P)
//
// at the end: two carry-less products. Four such words stand side by side, so that no product waits for the one before;
// at the end they are folded into one, whose 16 bytes, followed by the rest of the message, have the message's
// checksum. Bits are reflected: the register's lowest bit is the highest power, the product of two 64-bit registers
// comes out multiplied by x, and a 32-bit constant in a 64-bit register is multiplied by x^32; so constants are of n -
// 33 bits.
#include "cc/core/inflate/checksums.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define TFB_HAS_PCLMUL 1
#endif

namespace tf_booster::inflate {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320u;  // Reflected.

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

// Of the register itself, without the ones' complements before and behind.
uint32_t Advance(uint32_t crc, const uint8_t* p, size_t size) {
  for (; size >= 8; p += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kTables.at[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; ++p, --size) crc = (crc >> 8) ^ kTables.at[0][(crc ^ *p) & 0xff];
  return crc;
}

#ifdef TFB_HAS_PCLMUL

// x^n mod P, reflected: bit i stands for x^(31-i).
constexpr uint32_t PowerOfX(int n) {
  uint32_t power = 0x80000000u;
  for (; n > 0; --n) power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  return power;
}

// A word's lower half stands before its upper one in the message.
struct FoldConstants {
  uint64_t first, second;
};
constexpr FoldConstants FoldBy(int bytes) { return {PowerOfX(8 * bytes + 64 - 33), PowerOfX(8 * bytes - 33)}; }

constexpr FoldConstants kBy64 = FoldBy(64), kBy16 = FoldBy(16);
constexpr size_t kMinFold = 128;

#define TFB_PCLMUL __attribute__((target("sse4.2,pclmul")))

TFB_PCLMUL inline __m128i Fold(__m128i word, __m128i constants, __m128i with) {
  const __m128i first = _mm_clmulepi64_si128(word, constants, 0x00);
  const __m128i second = _mm_clmulepi64_si128(word, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), with);
}

TFB_PCLMUL inline __m128i Load(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

TFB_PCLMUL inline __m128i Constants(const FoldConstants& c) {
  return _mm_set_epi64x(static_cast<int64_t>(c.second), static_cast<int64_t>(c.first));
}

// Takes a multiple of 16 bytes and leaves less than 16.
TFB_PCLMUL uint32_t AdvanceByFolding(uint32_t crc, const uint8_t* p, size_t size) {
  __m128i words[4];
  for (int i = 0; i < 4; ++i) words[i] = Load(p + 16 * i);
  words[0] = _mm_xor_si128(words[0], _mm_cvtsi32_si128(static_cast<int32_t>(crc)));
  p += 64, size -= 64;
  const __m128i by64 = Constants(kBy64), by16 = Constants(kBy16);
  for (; size >= 64; p += 64, size -= 64) {
    for (int i = 0; i < 4; ++i) words[i] = Fold(words[i], by64, Load(p + 16 * i));
  }
  for (int i = 1; i < 4; ++i) words[i] = Fold(words[i - 1], by16, words[i]);
  for (; size >= 16; p += 16, size -= 16) words[3] = Fold(words[3], by16, Load(p));
  uint8_t last[16];
  std::memcpy(last, &words[3], sizeof(last));
  return Advance(Advance(0, last, sizeof(last)), p, size);
}

#endif

}  // namespace

uint32_t ScalarCrc32(uint32_t crc, const void* data, size_t size) {
  return ~Advance(~crc, static_cast<const uint8_t*>(data), size);
}

uint32_t Crc32(uint32_t crc, const void* data, size_t size) {
#ifdef TFB_HAS_PCLMUL
  static const bool folds = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  if (folds && size >= kMinFold) return ~AdvanceByFolding(~crc, static_cast<const uint8_t*>(data), size);
#endif
  return ScalarCrc32(crc, data, size);
}

uint32_t Adler32(uint32_t adler, const void* data, size_t size) {
  constexpr uint32_t kModulus = 65521;
  constexpr size_t kMost = 5552;  // Bytes of 255 that 32 bits can add up.
  const uint8_t* p = static_cast<const uint8_t*>(data);
  uint32_t a = adler & 0xffff, b = adler >> 16;
  while (size > 0) {
    const size_t n = std::min(size, kMost);
    for (size_t i = 0; i < n; ++i) b += a += p[i];
    a %= kModulus;
    b %= kModulus;
    p += n;
    size -= n;
  }
  return b << 16 | a;
}

}  // namespace tf_booster::inflate
