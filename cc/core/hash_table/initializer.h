// Initial values of rows: a pure function of (seed, field name, key, column), the same bits on host and device, whoever asks
// first and in whatever order. So a find of an unknown key gives what an insert would.
//
//   stream  = Mix64(seed + golden * Mix64(FNV-1a(field name)))            once a field
//   word    = Philox4x32-10(stream, {column / 4, 0, key low, key high})[column % 4]
//   constant:          a
//   uniform:           a + (b - a) * u,     u = (word >> 8) / 2^24 in [0, 1); a result that rounds to b is the float below b
//   normal:            a + b * sqrt(2) * erfinv(x),   x = ± (1 - t),  t = (low 31 bits + 1/2) / 2^31, the sign from the top bit
//   truncated normal:  the same with x scaled by erf(sqrt 2), so that |z| < 2 by construction
//
// The inverse of the distribution function takes one word a column. Box-Muller takes two and a sine, whose bits no two
// libraries agree on, and TensorFlow's way to truncate (draw again) has no bound on its loop.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_INITIALIZER_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_INITIALIZER_H_

#include <cstdint>
#include <string>

#include "cc/core/base/exact_math.h"
#include "cc/core/base/host_device.h"
#include "cc/core/base/philox.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

// What the values of one field's new rows are made from.
struct RowInitializer {
  InitializerKind kind;
  float a;
  float b;
  uint64_t stream;
};

inline RowInitializer MakeRowInitializer(const InitializerSpec& spec, const std::string& field_name, uint64_t seed) {
  uint64_t name_hash = 0xCBF29CE484222325ull;
  for (const char c : field_name) name_hash = (name_hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return {spec.kind, spec.a, spec.b, Mix64(seed + 0x9E3779B97F4A7C15ull * Mix64(name_hash))};
}

// A draw of the standard normal distribution, or of its part within `scale` = erf(limit / sqrt(2)).
TFB_HOST_DEVICE float NormalFromWord(uint32_t word, float scale) {
  const float t = exact::Mul(exact::Add(static_cast<float>(static_cast<int32_t>(word & 0x7FFFFFFFu)), 0.5f), 0x1p-31f);
  const float magnitude = exact::Mul(scale, exact::Sub(1.0f, t));
  // (1 - x) (1 + x). Unscaled, 1 - x is t, which carries the tail's digits that 1 - (1 - t) would lose.
  const float left = scale == 1.0f ? t : exact::Sub(1.0f, magnitude);
  const float w = -exact::Log(exact::Mul(left, exact::Sub(2.0f, left)));
  const float z = exact::Mul(1.41421356f, exact::ErfInv(magnitude, w));
  return word >> 31 ? -z : z;
}

TFB_HOST_DEVICE float InitialFromWord(const RowInitializer& init, uint32_t word) {
  constexpr float kErfSqrt2 = 0.9544995f;  // erf(sqrt 2) = 0.95449974, less so much that no rounding reaches 2.
  switch (init.kind) {
    case InitializerKind::kUniform: {
      const float u = exact::Mul(static_cast<float>(static_cast<int32_t>(word >> 8)), 0x1p-24f);
      const float value = exact::Add(init.a, exact::Mul(exact::Sub(init.b, init.a), u));
      if (value < init.b || init.a == init.b) return value;
      // The float below b: its bits are one less above 0, one more below, and those of the smallest negative at 0.
      return exact::FloatOf(exact::BitsOf(init.b) + (init.b > 0 ? 0xFFFFFFFFu : init.b < 0 ? 1u : 0x80000001u));
    }
    case InitializerKind::kNormal:
      return exact::Add(init.a, exact::Mul(init.b, NormalFromWord(word, 1.0f)));
    case InitializerKind::kTruncatedNormal:
      return exact::Add(init.a, exact::Mul(init.b, NormalFromWord(word, kErfSqrt2)));
    default:
      return init.a;
  }
}

// Columns 4 * block … 4 * block + 3 of the row of `key`.
TFB_HOST_DEVICE void InitialBlock(const RowInitializer& init, int64_t key, uint32_t block, float out[4]) {
  const uint64_t bits = static_cast<uint64_t>(key);
  const PhiloxWords words =
      Philox(init.stream, {{block, 0, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}});
  for (int i = 0; i < 4; ++i) out[i] = InitialFromWord(init, words.word[i]);
}

// The whole embedding.
TFB_HOST_DEVICE void InitialRow(const RowInitializer& init, int64_t key, int64_t dim, float* out) {
  if (init.kind == InitializerKind::kConstant) {
    for (int64_t i = 0; i < dim; ++i) out[i] = init.a;
    return;
  }
  for (int64_t i = 0; i < dim; i += 4) {
    float block[4];
    InitialBlock(init, key, static_cast<uint32_t>(i / 4), block);
    for (int64_t j = i; j < i + 4 && j < dim; ++j) out[j] = block[j - i];
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_INITIALIZER_H_
