// Sums over fields, and their gradient, as bodies for the GPU: a thread has a column of an example, or four of them
// where all addresses allow it, and goes through the fields, so neighbouring threads read neighbouring columns.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_BODY_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_BODY_H_

#include <algorithm>
#include <vector>

#include "cc/core/columns/column_copy_body.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"
#include "cc/core/products/field_order.h"

namespace tf_booster {
namespace gpu {

// Unit: a column of a row, or a pack of them.
template <class V>
struct SumColumns {
  Fields in;
  FieldColumns columns;
  float* sums;
  float* square_sums;
  float* joined;  // Where the first row's vectors go; null: nowhere.
  int64_t join_width;

  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const int64_t of_row = columns.count / V::kSize, row = unit / of_row, c = (unit - row * of_row) * V::kSize;
    const float* const vectors = in.data + row * in.fields * in.width + columns.first + c;
    float* const to = joined == nullptr ? nullptr : joined + row * join_width + c;
    const auto load = [&](int64_t f) {
      const V value = LoadPack(reinterpret_cast<const V*>(vectors + f * in.width));
      if (to != nullptr) StorePack(reinterpret_cast<V*>(to + f * columns.count), value);
      return value;
    };
    // A pack is in one of Eigen's vectors, or in none: rows of packs begin at multiples of half a vector.
    const FieldColumns whole = WholeVectors(row, columns.count);
    const bool interleaved = in.fields >= kEigenUnrolledRows && c >= whole.first && c < whole.first + whole.count;
    const FieldTotals<V> total = interleaved ? Interleaved<V>(in.fields, load) : InTurn<V>(in.fields, load);
    const int64_t at = row * columns.count + c;
    if (sums != nullptr) StorePack(reinterpret_cast<V*>(sums + at), total.values);
    if (square_sums != nullptr) StorePack(reinterpret_cast<V*>(square_sums + at), total.squares);
  }
};

template <class Queue>
void SumFieldsOnQueue(Queue& queue, const Fields& in, const FieldSums& out, const std::vector<FieldCopy>& copies) {
  const int64_t count = out.columns.count;
  std::vector<ColumnsJob> jobs;
  const auto copy = [&](int64_t rows, int64_t columns, const float* from, int64_t from_step, float* to,
                        int64_t to_step) {
    constexpr int64_t kFloat = sizeof(float);
    jobs.push_back({rows, columns * kFloat, reinterpret_cast<const char*>(from), from_step * kFloat,
                    reinterpret_cast<char*>(to), to_step * kFloat});
  };
  float* joined = out.joined;
  const auto join = [&](const std::vector<JoinedPart>& parts) {
    for (const JoinedPart& part : parts) {
      copy(in.rows, part.columns, part.data, part.columns, joined, out.join_width);
      joined += part.columns;
    }
  };
  float* vectors = nullptr;
  if (joined != nullptr) {
    join(out.before);
    vectors = joined;
    joined += in.fields * count;
    join(out.behind);
  }
  for (const FieldCopy& apart : copies) {
    const int64_t columns = apart.columns.count;
    copy(in.rows * in.fields, columns, in.data + apart.columns.first, in.width, apart.to, columns);
  }
  CopyColumnsOnQueue(queue, jobs);

  bool packed = (in.width | out.columns.first | count) % Pack<float>::kSize == 0 && IsPackAligned(in.data) &&
                IsPackAligned(out.sums) && IsPackAligned(out.square_sums);
  if (vectors != nullptr) packed = packed && IsPackAligned(vectors) && out.join_width % Pack<float>::kSize == 0;
  const auto sum = [&](auto v) {
    using V = decltype(v);
    ForEach(queue, in.rows * count / V::kSize,
            SumColumns<V>{in, out.columns, out.sums, out.square_sums, vectors, out.join_width});
  };
  packed ? sum(Pack<float>()) : sum(One<float>());
}

// Some addends of the gradient of some columns of each field: as many as the argument of a kernel should hold.
struct RangeJob {
  static constexpr int kMostTerms = 8;
  int64_t units;  // rows * columns / those of a unit
  int64_t columns;
  int64_t first;
  int num_terms;
  bool goes_on;  // The gradient has the sum of addends before these.
  FieldTerm terms[kMostTerms];
};

// Unit: a column of a row, or a pack of them. It goes through the fields, some at a time, all of which are asked for
// before one is stored; what all of them get is read once.
template <class V>
struct FieldsGradient {
  static constexpr int kFields = V::kSize == 1 ? 4 : 2;  // Packs take registers.
  Fields in;
  float* gradient;

  TFB_HOST_DEVICE static const V* At(const float* column) { return reinterpret_cast<const V*>(column); }

  TFB_HOST_DEVICE void operator()(const RangeJob& job, int64_t unit) const {
    const int64_t of_row = job.columns / V::kSize, row = unit / of_row, c = (unit - row * of_row) * V::kSize;
    const float* data[RangeJob::kMostTerms];
    V given[RangeJob::kMostTerms];
    bool reads = false;
    TFB_UNROLL
    for (int t = 0; t < RangeJob::kMostTerms; ++t) {
      if (t >= job.num_terms) break;
      data[t] = job.terms[t].data + row * job.terms[t].step + c;
      given[t] = LoadPack(At(data[t]));
      reads = reads || job.terms[t].kind == FieldTerm::kSquareSum || job.terms[t].kind == FieldTerm::kProductSum;
    }
    const int64_t begin = row * in.fields * in.width + job.first + c;
    for (int64_t f = 0; f < in.fields; f += kFields) {
      float* to[kFields];
      V vectors[kFields], sums[kFields] = {};
      TFB_UNROLL
      for (int j = 0; j < kFields; ++j) {
        const int64_t at = begin + Min(f + j, in.fields - 1) * in.width;
        to[j] = gradient + at;
        vectors[j] = reads ? LoadPack(At(in.data + at)) : V();
        if (job.goes_on) sums[j] = *At(to[j]);
      }
      TFB_UNROLL
      for (int t = 0; t < RangeJob::kMostTerms; ++t) {
        if (t >= job.num_terms) break;
        const FieldTerm::Kind kind = job.terms[t].kind;
        V addends[kFields];
        TFB_UNROLL
        for (int j = 0; j < kFields; ++j) {
          const int64_t of_field = Min(f + j, in.fields - 1) * job.columns;
          addends[j] = kind == FieldTerm::kWhole ? LoadPack(At(data[t] + of_field)) : given[t];
        }
        TFB_UNROLL
        for (int j = 0; j < kFields; ++j) {
          if (kind == FieldTerm::kSquareSum) addends[j] = Of<FieldTerm::kSquareSum>(addends[j], vectors[j]);
          if (kind == FieldTerm::kProductSum) addends[j] = Of<FieldTerm::kProductSum>(addends[j], vectors[j]);
          if (t == 0 && !job.goes_on) {
            sums[j] = addends[j];
          } else {
            sums[j] += addends[j];
          }
        }
      }
      TFB_UNROLL
      for (int j = 0; j < kFields; ++j) {
        if (f + j < in.fields) StorePack(reinterpret_cast<V*>(to[j]), sums[j]);
      }
    }
  }

 private:
  template <FieldTerm::Kind kKind>
  TFB_HOST_DEVICE static V Of(const V& given, const V& vector) {
    V addend;
    TFB_UNROLL
    for (int i = 0; i < V::kSize; ++i) addend.at[i] = FieldAddend<kKind>(given.at[i], vector.at[i]);
    return addend;
  }
};

// Whether columns of a range, of all that it reads and writes, can be taken by packs.
inline bool CanPack(const Fields& in, const FieldRange& range, int64_t first, const float* gradient) {
  int64_t steps = in.width | first | range.columns;
  bool aligned = IsPackAligned(in.data) && IsPackAligned(gradient);
  for (const FieldTerm& term : range.terms) {
    steps |= term.step;
    aligned = aligned && IsPackAligned(term.data);
  }
  return aligned && steps % Pack<float>::kSize == 0;
}

template <class Queue>
void SumFieldsGradientOnQueue(Queue& queue, const Fields& in, const std::vector<FieldRange>& ranges, float* gradient) {
  constexpr size_t kMost = RangeJob::kMostTerms;
  size_t most = 1;
  for (const FieldRange& range : ranges) most = std::max(most, range.terms.size());
  for (size_t begin = 0; begin < most; begin += kMost) {
    std::vector<RangeJob> packed, others;
    int64_t first = 0;
    for (const FieldRange& range : ranges) {
      const size_t end = std::min(range.terms.size(), begin + kMost);
      if (begin < end) {
        const bool packs = CanPack(in, range, first, gradient);
        const int64_t units = in.fields > 0 ? in.rows * range.columns / (packs ? Pack<float>::kSize : 1) : 0;
        RangeJob job = {units, range.columns, first, static_cast<int>(end - begin), begin > 0, {}};
        std::copy(range.terms.begin() + begin, range.terms.begin() + end, job.terms);
        (packs ? packed : others).push_back(job);
      }
      first += range.columns;
    }
    ForEachUnit(queue, packed, FieldsGradient<Pack<float>>{in, gradient});
    ForEachUnit(queue, others, FieldsGradient<One<float>>{in, gradient});
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_FIELD_SUMS_BODY_H_
