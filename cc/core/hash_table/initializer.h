// Initial values of rows: a pure function of (seed, field name, key, column), the same bits on host and device, whoever
// asks first and in whatever order. So a find of an unknown key gives what an insert would.
//
//   stream  = Mix64(seed + golden * Mix64(FNV-1a(field name)))            once a field
//   word    = Philox4x32-10(stream, {column / 4, 0, key low, key high})[column % 4]
//   constant:          a
//   uniform:           a + (b - a) * u,     u = (word >> 8) / 2^24 in [0, 1); at most the float below b
//   normal:            a + b * sqrt(2) * erfinv(x),   x = ± (1 - t),  t = (low 31 bits + 1/2) / 2^31, the sign from the
//   top bit truncated normal:  the same with x scaled by erf(sqrt 2), so that |z| < 2 by construction
//
// The inverse of the distribution function takes one word a column. Box-Muller takes two and a sine, whose bits no two
// libraries agree on, and TensorFlow's way to truncate (draw again) has no bound on its loop.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_INITIALIZER_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_INITIALIZER_H_

#include <cmath>
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
  float greatest;  // Of a uniform distribution.
  uint64_t stream;
};

inline RowInitializer MakeRowInitializer(const InitializerSpec& spec, const std::string& field_name, uint64_t seed) {
  uint64_t name_hash = 0xCBF29CE484222325ull;
  for (const char c : field_name) name_hash = (name_hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  const float greatest = std::nextafter(spec.b, spec.a);  // Equal to a where a equals b.
  return {spec.kind, spec.a, spec.b, greatest, Mix64(seed + 0x9E3779B97F4A7C15ull * Mix64(name_hash))};
}

// How far a word is from the end of the distribution's positive half, in (0, 1].
TFB_HOST_DEVICE float TailOfWord(uint32_t word) {
  return exact::Mul(exact::Add(static_cast<float>(static_cast<int32_t>(word & 0x7FFFFFFFu)), 0.5f), 0x1p-31f);
}

TFB_HOST_DEVICE float WithSignOf(uint32_t word, float magnitude) {
  return exact::FloatOf(exact::BitsOf(magnitude) | (word & 0x80000000u));
}

TFB_HOST_DEVICE float NormalFromWord(uint32_t word) {
  // (1 - x) (1 + x) from t = 1 - x, which carries the tail's digits that 1 - (1 - t) would lose. Both parts of erfinv
  // are computed and one is chosen by a mask: so a compiler makes vectors of it.
  const float t = TailOfWord(word), x = exact::Sub(1.0f, t);
  const float w = -exact::Log(exact::Mul(t, exact::Sub(2.0f, t)));
  const uint32_t central = exact::BitsOf(exact::ErfInvCentral(x, w)), tail = exact::BitsOf(exact::ErfInvTail(x, w));
  const uint32_t mask = 0u - static_cast<uint32_t>(w < 5.0f);
  return WithSignOf(word, exact::Mul(1.41421356f, exact::FloatOf((central & mask) | (tail & ~mask))));
}

TFB_HOST_DEVICE float TruncatedNormalFromWord(uint32_t word) {
  constexpr float kErfSqrt2 = 0.9544995f;  // erf(sqrt 2) = 0.95449974, less so much that no rounding reaches 2.
  const float x = exact::Mul(kErfSqrt2, exact::Sub(1.0f, TailOfWord(word))), t = exact::Sub(1.0f, x);
  const float w = -exact::Log(exact::Mul(t, exact::Sub(2.0f, t)));  // At most 2.42.
  return WithSignOf(word, exact::Mul(1.41421356f, exact::ErfInvCentral(x, w)));
}

template <InitializerKind kKind>
TFB_HOST_DEVICE float InitialFromWord(const RowInitializer& init, uint32_t word) {
  if constexpr (kKind == InitializerKind::kUniform) {
    const float u = exact::Mul(static_cast<float>(static_cast<int32_t>(word >> 8)), 0x1p-24f);
    const float value = exact::Add(init.a, exact::Mul(exact::Sub(init.b, init.a), u));
    return value < init.greatest ? value : init.greatest;
  } else if constexpr (kKind == InitializerKind::kNormal) {
    return exact::Add(init.a, exact::Mul(init.b, NormalFromWord(word)));
  } else if constexpr (kKind == InitializerKind::kTruncatedNormal) {
    return exact::Add(init.a, exact::Mul(init.b, TruncatedNormalFromWord(word)));
  } else {
    return init.a;
  }
}

// The words of columns 4 * block … 4 * block + 3.
TFB_HOST_DEVICE PhiloxWords InitialWords(const RowInitializer& init, int64_t key, uint32_t block) {
  const uint64_t bits = static_cast<uint64_t>(key);
  return Philox(init.stream, {{block, 0, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}});
}

// Columns first … first + kColumns - 1: words first and then values, for a compiler to make vectors of the latter.
template <InitializerKind kKind, int kColumns>
TFB_HOST_DEVICE void InitialColumns(const RowInitializer& init, int64_t key, int64_t first, float* out) {
  uint32_t words[kColumns];
  for (int i = 0; i < kColumns; i += 4) {
    const PhiloxWords block = InitialWords(init, key, static_cast<uint32_t>((first + i) / 4));
    for (int j = 0; j < 4; ++j) words[i + j] = block.word[j];
  }
  for (int i = 0; i < kColumns; ++i) out[i] = InitialFromWord<kKind>(init, words[i]);
}

// The whole embedding. 16 columns at a time: four generators side by side hide each other's latency.
template <InitializerKind kKind>
TFB_HOST_DEVICE void InitialRowOf(const RowInitializer& init, int64_t key, int64_t dim, float* out) {
  int64_t i = 0;
  for (; i + 16 <= dim; i += 16) InitialColumns<kKind, 16>(init, key, i, out + i);
  for (; i < dim; i += 4) {
    float values[4];
    InitialColumns<kKind, 4>(init, key, i, values);
    for (int64_t j = i; j < i + 4 && j < dim; ++j) out[j] = values[j - i];
  }
}

TFB_HOST_DEVICE void InitialRow(const RowInitializer& init, int64_t key, int64_t dim, float* out) {
  switch (init.kind) {
    case InitializerKind::kUniform:
      return InitialRowOf<InitializerKind::kUniform>(init, key, dim, out);
    case InitializerKind::kNormal:
      return InitialRowOf<InitializerKind::kNormal>(init, key, dim, out);
    case InitializerKind::kTruncatedNormal:
      return InitialRowOf<InitializerKind::kTruncatedNormal>(init, key, dim, out);
    default:
      for (int64_t i = 0; i < dim; ++i) out[i] = init.a;
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_INITIALIZER_H_
