// The algorithm, for levels with multiply-add. Included inside the level's namespace behind pair_dots_tiles.h; the
// level has kGradientRows and kLowerRows.
//
// Between the steps data goes through memory by whole vectors at places that are multiples of 8 wherever it can: a load
// of what several stores wrote has to wait until they are in the cache, and such waits were more than half of the time.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_LOOPS_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_LOOPS_H_

constexpr int64_t kDotRows = 4;  // PairPlan's groups.

// Vectors are read and written for some examples at a time: parts of equal size often begin at equal places of their
// pages, so that the lines of one row of each would be too many for one set of the caches.
constexpr int64_t kBlockFloats = 1 << 11;

// Matrices of a block of examples, or of one. What is beyond fields and dim in the vectors is 0.
class Scratch {
 public:
  Scratch(const PairPlan& plan, int64_t dim)
      : fields(Padded(plan.fields())),
        columns(Padded(dim)),
        examples(std::max<int64_t>(1, kBlockFloats / (fields * columns))),
        memory_((2 * examples + 1) * fields * columns + 2 * fields * fields + 16),
        vectors_(memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64 / sizeof(float)),
        gradients_(vectors_ + examples * fields * columns),
        turned(gradients_ + examples * fields * columns),
        pairs(turned + fields * columns),
        both(pairs + fields * fields) {}

  const int64_t fields, columns;  // Whole vectors.
  const int64_t examples;         // Of a block.

  // [fields, columns], of an example of the block.
  float* vectors(int64_t example) const { return vectors_ + example * fields * columns; }
  float* gradients(int64_t example) const { return gradients_ + example * fields * columns; }

 private:
  std::vector<float> memory_;
  float *const vectors_, *const gradients_;

 public:
  float* const turned;  // [columns, fields]: an example's vectors.
  float* const pairs;   // [fields, fields]
  float* const both;    // [fields, fields]: pairs plus pairs turned.
};

// Calls copy(a vector in a part, field by field, its place in `block`, dim) for the examples [row, row + count). The
// commonest dim is a constant for the compiler: without that, copying took a third of the time of dots.
template <class Parts, class Copy>
TFB_INLINE void ForVectors(const Parts& parts, int64_t row, int64_t count, int64_t dim, const Scratch& s, float* block,
                           Copy copy) {
  const int64_t step = s.fields * s.columns;
  const auto all = [&](auto own_dim) __attribute__((always_inline)) {
    for (const auto& part : parts) {
      auto* at = part.data + row * part.fields * own_dim;
      for (int64_t e = 0; e < count; ++e) {
        for (int64_t f = 0; f < part.fields; ++f, at += own_dim) copy(at, block + e * step + f * s.columns, own_dim);
      }
      block += part.fields * s.columns;
    }
  };
  dim == 16 ? all(std::integral_constant<int64_t, 16>()) : all(dim);
}

inline void Read(const std::vector<FieldPart<const float>>& parts, int64_t row, int64_t count, int64_t dim,
                 const Scratch& s) {
  const int64_t ahead = s.examples * dim;
  ForVectors(
      parts, row, count, dim, s,
      s.vectors(0), [=](const float* from, float* to, int64_t n) __attribute__((always_inline)) {
        _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
        CopyVector(from, n, to);
      });
}

inline void Write(const std::vector<FieldPart<float>>& parts, int64_t row, int64_t count, int64_t dim,
                  const Scratch& s) {
  ForVectors(
      parts, row, count, dim, s, s.gradients(0),
      [](float* to, const float* from, int64_t n) __attribute__((always_inline)) { CopyVector(from, n, to); });
}

// turned = v turned.
inline void Turn(const float* v, const Scratch& s) {
  for (int64_t i = 0; i < s.fields; i += kTurned) {
    for (int64_t d = 0; d < s.columns; d += kTurned) {
      Store(Turned(Load(v + i * s.columns + d, s.columns)), s.turned + d * s.fields + i, s.fields);
    }
  }
}

// pairs = v * turned, where `plan` needs it.
inline void Dots(const PairPlan& plan, int64_t dim, const float* v, const Scratch& s) {
  for (size_t g = 0; g < plan.begins().size(); ++g) {
    const int64_t i = static_cast<int64_t>(g) * kDotRows;
    Product<kDotRows>(v + i * s.columns, s.columns, s.turned, s.fields, dim, s.pairs + i * s.fields, s.fields,
                      plan.begins()[g] / kLanes * kLanes, Padded(plan.ends()[g]));
  }
}

inline void Give(const PairPlan& plan, const Scratch& s, float* out) {
  for (const PairPlan::Run& run : plan.runs()) {
    CopyRun(s.pairs + run.row * s.fields + run.column, run.length, out + run.place,
            plan.size() - run.place - run.length);
  }
}

// All dots below the diagonal of `fields` fields, straight to `out`, where row i of them begins at lower[i]: no product
// lies between, which with AVX-512 took a fifth of the time. `fields` is more than kRows; the last rows may be computed
// twice.
template <int kRows>
__attribute__((noinline)) void LowerDots(const int64_t* lower, int64_t fields, int64_t dim, const Scratch& s,
                                         float* out) {
  for (int64_t begin = 1; begin < fields; begin += kRows) {
    const int64_t i = std::min(begin, fields - kRows);
    ForColumns(
        0, Padded(i + kRows - 1), [&](auto vectors, int64_t j) __attribute__((always_inline)) {
          Sums<kRows, vectors.value> sums;
          const float* left = s.turned + i;
          const float* right = s.turned + j;
#pragma GCC unroll 2
          for (int64_t k = 0; k < dim; ++k, left += s.fields, right += s.fields) {
            sums.Add(
                right, [&](int r) __attribute__((always_inline)) { return left + r; });
          }
          sums.PutLower(
              j, i, [&](int r) __attribute__((always_inline)) { return out + lower[i + r]; });
        });
  }
}

inline __m256i LanesFrom(int64_t begin, int64_t end) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(begin)), places);
  const __m256i within = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(end)), places);
  return _mm256_andnot_si256(below, within);
}

// Any pairs: their gradients as a matrix, and that plus itself turned.
inline void Take(const PairPlan& plan, const float* in, const Scratch& s) {
  int64_t last = -1;  // The vector of pairs that was written last.
  for (const PairPlan::Run& run : plan.runs_by_row()) {
    float* const to = s.pairs + run.row * s.fields;
    for (int64_t j = run.column / kTurned * kTurned; j < run.column + run.length; j += kTurned) {
      const __m256i lanes = LanesFrom(run.column - j, run.column + run.length - j);
      __m256 values = _mm256_maskload_ps(in + (run.place - run.column + j), lanes);
      if (last == run.row * s.fields + j) values = _mm256_or_ps(values, _mm256_loadu_ps(to + j));
      _mm256_storeu_ps(to + j, values);
      last = run.row * s.fields + j;
    }
  }
  const int64_t n = s.fields;
  for (int64_t i = 0; i < n; i += kTurned) {
    for (int64_t j = 0; j <= i; j += kTurned) {
      Block lower = Load(s.pairs + i * n + j, n);
      const Block upper = Turned(Load(s.pairs + j * n + i, n));
      for (int r = 0; r < kTurned; ++r) lower.row[r] = _mm256_add_ps(lower.row[r], upper.row[r]);
      Store(lower, s.both + i * n + j, n);
      if (i != j) Store(Turned(lower), s.both + j * n + i, n);
    }
  }
}

// out[i] = sum over j of g(i, j) * v[j], for kGradientRows rows i; g is `in`, where row i of what is below the diagonal
// begins at lower[i]. Above the diagonal it is what is below it, turned: that is read where it lies, so nothing is put
// together or turned for it. On it is 0, which makes NaN of what is not finite, as in a product of whole matrices.
__attribute__((noinline)) void LowerGradients(const float* in, const int64_t* lower, int64_t i, int64_t n,
                                              const float* v, float* out, int64_t columns) {
  static constexpr float kZero = 0;
  const float* row[kGradientRows];
#pragma GCC unroll 16
  for (int r = 0; r < kGradientRows; ++r) row[r] = in + lower[i + r];
  ForColumns(
      0, columns, [&](auto vectors, int64_t c) __attribute__((always_inline)) {
        Sums<kGradientRows, vectors.value> sums;
        const float* from = v + c;
        int64_t j = 0;
        for (; j < i; ++j, from += columns) {
          sums.Add(
              from, [&](int r) __attribute__((always_inline)) { return row[r] + j; });
        }
#pragma GCC unroll 16
        for (int d = 0; d < kGradientRows; ++d, from += columns) {
          sums.Add(
              from, [&](int r) __attribute__((always_inline)) {
                return r == d ? &kZero : r > d ? row[r] + i + d : row[d] + i + r;
              });
        }
        for (j += kGradientRows; j < n; ++j, from += columns) {
          const float* const column = in + lower[j] + i;
          sums.Add(
              from, [&](int r) __attribute__((always_inline)) { return column + r; });
        }
        sums.Put(out + i * columns + c, columns);
      });
}

// Of one example, to `out`. The last rows may be computed twice.
inline void Gradients(const PairPlan& plan, const float* in, const float* v, float* out, const Scratch& s) {
  const int64_t n = plan.fields(), rows = std::max(n, kGradientRows);
  const bool is_lower = !plan.lower().empty() && n >= kGradientRows;
  if (!is_lower) Take(plan, in, s);
  for (int64_t i = 0; i < rows; i += kGradientRows) {
    const int64_t first = std::min(i, rows - kGradientRows);
    if (is_lower) {
      LowerGradients(in, plan.lower().data(), first, n, v, out, s.columns);
    } else {
      Product<kGradientRows>(s.both + first * s.fields, s.fields, v, s.columns, n, out + first * s.columns, s.columns,
                             0, s.columns);
    }
  }
}

void DotRows(const PairPlan& plan, int64_t begin, int64_t end, int64_t dim,
             const std::vector<FieldPart<const float>>& parts, DotColumns<float> dots,
             FunctionRef<void(int64_t, int64_t)> also) {
  const Scratch s(plan, dim);
  for (int64_t row = begin; row < end; row += s.examples) {
    const int64_t count = std::min(s.examples, end - row);
    Read(parts, row, count, dim, s);
    for (int64_t e = 0; e < count; ++e) {
      float* const out = dots.data + (row + e) * dots.step;
      Turn(s.vectors(e), s);
      if constexpr (kLowerRows > 0) {
        if (!plan.lower().empty() && plan.fields() > kLowerRows) {
          LowerDots<kLowerRows>(plan.lower().data(), plan.fields(), dim, s, out);
          continue;
        }
      }
      Dots(plan, dim, s.vectors(e), s);
      Give(plan, s, out);
    }
    also(row, row + count);
  }
}

void GradientRows(const PairPlan& plan, int64_t begin, int64_t end, int64_t dim, DotColumns<const float> gradient,
                  const std::vector<FieldPart<const float>>& parts, const std::vector<FieldPart<float>>& gradients) {
  const Scratch s(plan, dim);
  for (int64_t row = begin; row < end; row += s.examples) {
    const int64_t count = std::min(s.examples, end - row);
    Read(parts, row, count, dim, s);
    for (int64_t e = 0; e < count; ++e) {
      Gradients(plan, gradient.data + (row + e) * gradient.step, s.vectors(e), s.gradients(e), s);
    }
    Write(gradients, row, count, dim, s);
  }
}

#undef TFB_INLINE

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_LOOPS_H_
