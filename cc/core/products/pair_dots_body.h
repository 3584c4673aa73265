// Dots of pairs, and their gradient, as bodies for the GPU. Few vectors an example, so all that threads share stays in
// the first-level cache; what matters is that vectors are read from where they lie, and that nothing between is
// written.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_BODY_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_BODY_H_

#include <vector>

#include "cc/core/gpu/pack.h"
#include "cc/core/gpu/scratch.h"
#include "cc/core/gpu/write_values.h"
#include "cc/core/products/pair_dots_gpu.h"

namespace tf_booster {
namespace gpu {

// A field's vector of row 0, and how many floats there are from one row to the next.
struct PairField {
  const float* in;
  float* out;
  int64_t stride;
};

struct PairDotsBody {
  const PairField* fields;
  const int32_t* pairs;
  int32_t num_fields, num_pairs;
  int64_t dim;
  DotColumns<float> dots;

  TFB_HOST_DEVICE const float* Vector(int32_t field, int64_t row) const {
    return fields[field].in + row * fields[field].stride;
  }
};

// Unit: a pair of a row. V: Pack<float> or One<float>. The sum is in the order of the columns.
template <class V>
struct DotPair : PairDotsBody {
  explicit DotPair(const PairDotsBody& body) : PairDotsBody(body) {}
  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const int64_t row = unit / num_pairs;
    const int32_t pair = pairs[unit - row * num_pairs];
    const V* a = reinterpret_cast<const V*>(Vector(pair / num_fields, row));
    const V* b = reinterpret_cast<const V*>(Vector(pair % num_fields, row));
    float sum = 0;
    for (int64_t w = 0; w < dim / V::kSize; ++w) {
      const V x = a[w], y = b[w];
      TFB_UNROLL
      for (int c = 0; c < V::kSize; ++c) sum += x.at[c] * y.at[c];
    }
    dots.data[row * dots.step + unit - row * num_pairs] = sum;
  }
};

// Unit: a column of a field's vector of a row. The sum is in the order of the fields, so it does not depend on
// scheduling.
struct PairGradient : PairDotsBody {
  const int32_t* places;  // [num_fields, num_fields]: where the pair's dot is, or -1.
  PairGradient(const PairDotsBody& body, const int32_t* p) : PairDotsBody(body), places(p) {}

  TFB_HOST_DEVICE float GradientOf(int32_t i, int32_t j, int64_t row) const {
    const int32_t place = places[i * num_fields + j];
    return place < 0 ? 0.0f : dots.data[row * dots.step + place];
  }
  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const int64_t vector = unit / dim, column = unit - vector * dim, row = vector / num_fields;
    const int32_t i = static_cast<int32_t>(vector - row * num_fields);
    float sum = 0;
    for (int32_t j = 0; j < num_fields; ++j) {
      if (places[i * num_fields + j] < 0 && places[j * num_fields + i] < 0) continue;
      sum += (GradientOf(i, j, row) + GradientOf(j, i, row)) * Vector(j, row)[column];
    }
    fields[i].out[row * fields[i].stride + column] = sum;
  }
};

// Null queue: only measures.
template <class Queue>
void PairDotsOnQueue(Queue* queue, const PairDotsJob& job, Scratch* scratch) {
  const bool backward = !job.gradients.empty();
  std::vector<PairField> fields;
  bool aligned = job.dim % Pack<float>::kSize == 0;
  for (size_t p = 0; p < job.parts.size(); ++p) {
    const FieldPart<const float>& part = job.parts[p];
    aligned = aligned && IsPackAligned(part.data);
    for (int64_t f = 0; f < part.fields; ++f) {
      float* const out = backward ? job.gradients[p].data + f * job.dim : nullptr;
      fields.push_back({part.data + f * job.dim, out, part.fields * job.dim});
    }
  }
  const int64_t n = static_cast<int64_t>(fields.size()), num_pairs = static_cast<int64_t>(job.pairs->size());
  PairField* const field_table = scratch->Take<PairField>(n);
  int32_t* const numbers = scratch->Take<int32_t>(backward ? n * n : num_pairs);
  if (queue == nullptr) return;

  std::vector<int32_t> table(backward ? n * n : num_pairs, -1);
  for (int64_t p = 0; p < num_pairs; ++p) {
    const int64_t pair = (*job.pairs)[p];
    backward ? table[pair] = static_cast<int32_t>(p) : table[p] = static_cast<int32_t>(pair);
  }
  Write(*queue, fields.data(), n, field_table);
  Write(*queue, table.data(), static_cast<int64_t>(table.size()), numbers);
  const PairDotsBody body = {
      field_table, backward ? nullptr : numbers, static_cast<int32_t>(n), static_cast<int32_t>(num_pairs), job.dim,
      job.dots};
  if (backward) {
    ForEach(*queue, job.rows * n * job.dim, PairGradient(body, numbers));
  } else if (aligned) {
    ForEach(*queue, job.rows * num_pairs, DotPair<Pack<float>>(body));
  } else {
    ForEach(*queue, job.rows * num_pairs, DotPair<One<float>>(body));
  }
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_PAIR_DOTS_BODY_H_
