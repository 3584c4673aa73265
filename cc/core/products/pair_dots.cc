#include "cc/core/products/pair_dots.h"

#include <immintrin.h>

#include <algorithm>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/target.h"

namespace tf_booster {
namespace {

constexpr int64_t kLanes = 8;
// With two vectors of columns eight sums, which hide that a multiply-add takes four cycles.
constexpr int64_t kRows = 4;

int64_t Padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Vectors are read and written for some examples at a time: parts of equal size often begin at equal places of their
// pages, so that the lines of one row of each would be too many for one set of the caches.
constexpr int64_t kBlockFloats = 1 << 11;

// Matrices of a block of examples, or of one. What is beyond fields and dim in them is 0.
class Scratch {
 public:
  Scratch(const PairPlan& plan, int64_t dim)
      : fields(plan.padded()),
        columns(Padded(dim)),
        examples(std::max<int64_t>(1, kBlockFloats / (fields * columns))),
        memory_((examples + 1) * fields * columns + 2 * fields * fields + Padded(plan.size()) + 4 * kLanes + 16),
        all(memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64 / sizeof(float)),
        other(all + examples * fields * columns),
        pairs(other + fields * columns),
        both(pairs + fields * fields),
        row(both + fields * fields + kLanes) {}

  const int64_t fields, columns;  // Multiples of 8.
  const int64_t examples;         // Of a block.

  // [fields, columns], of one of the block. Its gradients take its place.
  float* vectors(int64_t example) const { return all + example * fields * columns; }

 private:
  std::vector<float> memory_;

 public:
  float* const all;    // [examples, fields, columns]
  float* const other;  // One example's vectors turned, [columns, fields]; or their gradients, [fields, columns].
  float* const pairs;  // [fields, fields]
  float* const both;   // [fields, fields]: pairs plus pairs turned.
  float* const row;    // What one example gives or takes, [plan.size()], with room for a vector before and behind.
};

// Calls copy(a vector in a part, its place in the scratch) for the examples [row, row + count). Inlined, since what is
// compiled for another instruction set cannot be inlined here.
template <class Parts, class Copy>
__attribute__((always_inline)) inline void ForVectors(const Parts& parts, int64_t row, int64_t count, int64_t dim,
                                                      const Scratch& s, Copy copy) {
  float* to = s.all;
  for (const auto& part : parts) {
    auto* from = part.data + row * part.fields * dim;
    for (int64_t e = 0; e < count; ++e) {
      for (int64_t f = 0; f < part.fields; ++f, from += dim) copy(from, to + e * s.fields * s.columns + f * s.columns);
    }
    to += part.fields * s.columns;
  }
}

// What is done with one example's vectors, `v`. Dots: pairs = v * v turned, where `plan` needs it; Give them to `out`,
// behind which `room` floats may be written that come later. Take the gradients of dots into pairs; Gradients: other =
// (pairs + pairs turned) * v, which takes its place. Read and Write: a block of examples.
struct Plain {
  static void Read(const std::vector<FieldPart<const float>>& parts, int64_t row, int64_t count, int64_t dim,
                   Scratch* s) {
    ForVectors(parts, row, count, dim, *s, [&](const float* from, float* to) { std::copy(from, from + dim, to); });
  }

  static void Write(const std::vector<FieldPart<float>>& parts, int64_t row, int64_t count, int64_t dim,
                    const Scratch& s) {
    ForVectors(parts, row, count, dim, s, [&](float* to, const float* from) { std::copy(from, from + dim, to); });
  }

  static void Dots(const PairPlan& plan, int64_t dim, const float* v, Scratch* s) {
    for (const PairPlan::Run& run : plan.runs()) {
      for (int64_t j = run.column; j < run.column + run.length; ++j) {
        float sum = 0;
        for (int64_t d = 0; d < dim; ++d) {
          sum += v[run.row * s->columns + d] * v[j * s->columns + d];
        }
        s->pairs[run.row * s->fields + j] = sum;
      }
    }
  }

  static void Give(const PairPlan& plan, const Scratch& s, float* out, int64_t) {
    for (const PairPlan::Run& run : plan.runs()) {
      const float* from = s.pairs + run.row * s.fields + run.column;
      std::copy(from, from + run.length, out + run.place);
    }
  }

  static void Take(const PairPlan& plan, const float* in, Scratch* s) {
    for (const PairPlan::Run& run : plan.runs()) {
      std::copy(in + run.place, in + run.place + run.length, s->pairs + run.row * s->fields + run.column);
    }
  }

  static void Gradients(const PairPlan& plan, int64_t dim, float* v, Scratch* s) {
    const int64_t n = s->fields;
    for (int64_t i = 0; i < plan.fields(); ++i) {
      float* const out = s->other + i * s->columns;
      std::fill(out, out + dim, 0.0f);
      for (int64_t j = 0; j < plan.fields(); ++j) {
        const float scale = s->pairs[i * n + j] + s->pairs[j * n + i];
        for (int64_t d = 0; d < dim; ++d) out[d] += scale * v[j * s->columns + d];
      }
    }
    std::copy(s->other, s->other + s->fields * s->columns, v);
  }
};

TFB_BEGIN_TARGET("avx2,fma")

struct Block {
  __m256 row[kLanes];
};

inline Block Load(const float* from, int64_t step) {
  Block b;
  for (int r = 0; r < kLanes; ++r) b.row[r] = _mm256_loadu_ps(from + r * step);
  return b;
}

inline void Store(const Block& b, float* to, int64_t step) {
  for (int r = 0; r < kLanes; ++r) _mm256_storeu_ps(to + r * step, b.row[r]);
}

inline Block Turned(const Block& b) {
  __m256 pairs[kLanes], fours[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(b.row[i], b.row[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(b.row[i], b.row[i + 1]);
  }
  for (int i = 0; i < kLanes; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
  Block out;
  for (int i = 0; i < 4; ++i) {
    out.row[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    out.row[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
  return out;
}

// c[r][0, 8 * kVectors) = sum over k of a[r][k] * b[k][0, 8 * kVectors), for kRows rows; in the order of k.
template <int kVectors>
inline void Tile(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, float* c,
                 int64_t c_step) {
  __m256 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_ps();
  }
  for (int64_t k = 0; k < count; ++k, ++a, b += b_step) {
    __m256 right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = _mm256_loadu_ps(b + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const __m256 left = _mm256_broadcast_ss(a + r * a_step);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_fmadd_ps(left, right[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(c + r * c_step + v * kLanes, sum[r][v]);
  }
}

// The columns [begin, end) of kRows rows.
inline void Rows(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, float* c,
                 int64_t c_step, int64_t begin, int64_t end) {
  int64_t j = begin;
  for (; j + 2 * kLanes <= end; j += 2 * kLanes) Tile<2>(a, a_step, b + j, b_step, count, c + j, c_step);
  if (j < end) Tile<1>(a, a_step, b + j, b_step, count, c + j, c_step);
}

inline __m256 LanesFrom(int64_t begin, int64_t end) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(begin)), places);
  const __m256i within = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(end)), places);
  return _mm256_castsi256_ps(_mm256_andnot_si256(below, within));
}

// Between the steps data goes through memory by whole vectors at places that are multiples of 8 wherever it can: a load
// of what several stores wrote has to wait until they are in the cache, and such waits were more than half of the time.
struct Fma {
  static void Read(const std::vector<FieldPart<const float>>& parts, int64_t row, int64_t count, int64_t dim,
                   Scratch* s) {
    if (dim % kLanes != 0) return Plain::Read(parts, row, count, dim, s);
    const int64_t ahead = s->examples * dim;
    ForVectors(parts, row, count, dim, *s, [&](const float* from, float* to) {
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      for (int64_t i = 0; i < dim; i += kLanes) _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
    });
  }

  static void Write(const std::vector<FieldPart<float>>& parts, int64_t row, int64_t count, int64_t dim,
                    const Scratch& s) {
    if (dim % kLanes != 0) return Plain::Write(parts, row, count, dim, s);
    ForVectors(parts, row, count, dim, s, [&](float* to, const float* from) {
      for (int64_t i = 0; i < dim; i += kLanes) _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
    });
  }

  static void Dots(const PairPlan& plan, int64_t dim, const float* v, Scratch* s) {
    for (int64_t i = 0; i < s->fields; i += kLanes) {
      for (int64_t d = 0; d < s->columns; d += kLanes) {
        Store(Turned(Load(v + i * s->columns + d, s->columns)), s->other + d * s->fields + i, s->fields);
      }
    }
    for (int64_t i = 0; i < s->fields; i += kRows) {
      Rows(v + i * s->columns, s->columns, s->other, s->fields, dim, s->pairs + i * s->fields, s->fields,
           plan.begins()[i / kRows], plan.ends()[i / kRows]);
    }
  }

  static void Give(const PairPlan& plan, const Scratch& s, float* out, int64_t room) {
    if (room < kLanes) return Plain::Give(plan, s, out, room);
    // What is written too much the next run or example overwrites.
    for (const PairPlan::Run& run : plan.runs()) {
      const float* from = s.pairs + run.row * s.fields + run.column;
      for (int64_t i = 0; i < run.length; i += kLanes) {
        _mm256_storeu_ps(out + run.place + i, _mm256_loadu_ps(from + i));
      }
    }
  }

  static void Take(const PairPlan& plan, const float* in, Scratch* s) {
    std::copy(in, in + plan.size(), s->row);  // So that a vector may reach over both ends.
    int64_t at = -1;                          // The vector of pairs that was written last.
    for (const PairPlan::Run& run : plan.runs_by_row()) {
      const float* const from = s->row + run.place - run.column;
      float* const to = s->pairs + run.row * s->fields;
      for (int64_t j = run.column / kLanes * kLanes; j < run.column + run.length; j += kLanes) {
        __m256 values =
            _mm256_and_ps(_mm256_loadu_ps(from + j), LanesFrom(run.column - j, run.column + run.length - j));
        if (at == run.row * s->fields + j) values = _mm256_or_ps(values, _mm256_loadu_ps(to + j));
        _mm256_storeu_ps(to + j, values);
        at = run.row * s->fields + j;
      }
    }
  }

  static void Gradients(const PairPlan& plan, int64_t, float* v, Scratch* s) {
    const int64_t n = s->fields;
    for (int64_t i = 0; i < n; i += kLanes) {
      for (int64_t j = 0; j <= i; j += kLanes) {
        Block lower = Load(s->pairs + i * n + j, n);
        const Block upper = Turned(Load(s->pairs + j * n + i, n));
        for (int r = 0; r < kLanes; ++r) lower.row[r] = _mm256_add_ps(lower.row[r], upper.row[r]);
        Store(lower, s->both + i * n + j, n);
        if (i != j) Store(Turned(lower), s->both + j * n + i, n);
      }
    }
    for (int64_t i = 0; i < n; i += kRows) {
      Rows(s->both + i * n, n, v, s->columns, plan.fields(), s->other + i * s->columns, s->columns, 0, s->columns);
    }
    for (int64_t i = 0; i < s->fields * s->columns; i += kLanes) _mm256_storeu_ps(v + i, _mm256_loadu_ps(s->other + i));
  }
};

TFB_END_TARGET

bool HasFma() {
  static const bool found = Runs(SimdLevel::kAvx2) && __builtin_cpu_supports("fma");
  return found;
}

int64_t ExampleNs(const PairPlan& plan, int64_t dim) {
  return 20 + plan.fields() * plan.fields() * dim / 40 + plan.fields() * dim / 8 + plan.size() / 8;
}

template <class Arithmetic>
void DotRows(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
             float* dots, ParallelFor& pf) {
  pf.Run(rows, ExampleNs(plan, dim), [&](int64_t begin, int64_t end) {
    Scratch s(plan, dim);
    for (int64_t row = begin; row < end; row += s.examples) {
      const int64_t count = std::min(s.examples, end - row);
      Arithmetic::Read(parts, row, count, dim, &s);
      for (int64_t e = 0; e < count; ++e) {
        Arithmetic::Dots(plan, dim, s.vectors(e), &s);
        const int64_t at = (row + e) * plan.size();
        Arithmetic::Give(plan, s, dots + at, (end - row - e - 1) * plan.size());
      }
    }
  });
}

template <class Arithmetic>
void GradientRows(const PairPlan& plan, int64_t rows, int64_t dim, const float* gradient,
                  const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients,
                  ParallelFor& pf) {
  pf.Run(rows, 2 * ExampleNs(plan, dim), [&](int64_t begin, int64_t end) {
    Scratch s(plan, dim);
    for (int64_t row = begin; row < end; row += s.examples) {
      const int64_t count = std::min(s.examples, end - row);
      Arithmetic::Read(parts, row, count, dim, &s);
      for (int64_t e = 0; e < count; ++e) {
        Arithmetic::Take(plan, gradient + (row + e) * plan.size(), &s);
        Arithmetic::Gradients(plan, dim, s.vectors(e), &s);
      }
      Arithmetic::Write(gradients, row, count, dim, s);
    }
  });
}

}  // namespace

PairPlan::PairPlan(int64_t fields, const std::vector<int64_t>& pairs)
    : fields_(fields),
      padded_(Padded(fields)),
      size_(static_cast<int64_t>(pairs.size())),
      begins_(padded_ / kRows, padded_),
      ends_(padded_ / kRows, 0) {
  for (int64_t p = 0; p < size_; ++p) {
    const int64_t i = pairs[p] / fields, j = pairs[p] % fields;
    if (p > 0 && j > 0 && pairs[p] == pairs[p - 1] + 1) {
      ++runs_.back().length;
    } else {
      runs_.push_back({i, j, p, 1});
    }
    begins_[i / kRows] = std::min(begins_[i / kRows], j / kLanes * kLanes);
    ends_[i / kRows] = std::max(ends_[i / kRows], (j / kLanes + 1) * kLanes);
  }
  runs_by_row_ = runs_;
  std::sort(runs_by_row_.begin(), runs_by_row_.end(),
            [](const Run& a, const Run& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
}

void DotPairs(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
              float* dots, ParallelFor& pf) {
  (HasFma() ? DotRows<Fma> : DotRows<Plain>)(plan, rows, dim, parts, dots, pf);
}

void DotPairsGradient(const PairPlan& plan, int64_t rows, int64_t dim, const float* gradient,
                      const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients,
                      ParallelFor& pf) {
  (HasFma() ? GradientRows<Fma> : GradientRows<Plain>)(plan, rows, dim, gradient, parts, gradients, pf);
}

void DotPairsPlainly(const PairPlan& plan, int64_t rows, int64_t dim, const std::vector<FieldPart<const float>>& parts,
                     float* dots) {
  SerialFor serial;
  DotRows<Plain>(plan, rows, dim, parts, dots, serial);
}

void DotPairsGradientPlainly(const PairPlan& plan, int64_t rows, int64_t dim, const float* gradient,
                             const std::vector<FieldPart<const float>>& parts,
                             const std::vector<FieldPart<float>>& gradients) {
  SerialFor serial;
  GradientRows<Plain>(plan, rows, dim, gradient, parts, gradients, serial);
}

}  // namespace tf_booster
