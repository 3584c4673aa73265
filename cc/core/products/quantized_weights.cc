#include "cc/core/products/quantized_weights.h"

#include <algorithm>

#include "cc/core/products/quantized_levels.h"
#include "cc/core/products/turned.h"

namespace tf_booster {
namespace {

std::vector<float> Turned(const float* b, int64_t k, int64_t n, ParallelFor& pf) {
  std::vector<float> turned(k * n);
  constexpr int64_t kColumns = 16;
  pf.Run((n + kColumns - 1) / kColumns, kColumns * k, [&](int64_t begin, int64_t end) {
    TurnColumns(b, k, n, kColumns * begin, std::min(n, kColumns * end), turned.data());
  });
  return turned;
}

}  // namespace

QuantizedWeights::QuantizedWeights(QuantizedType type, const float* b, int64_t k, int64_t n, bool transposed,
                                   ParallelFor& pf, QuantizedLevel level)
    : type_(type), b_(b), k_(k), n_(n), transposed_(transposed) {
  const int64_t group = type == QuantizedType::kInt8 ? Int8Format::kGroup : Int16Format::kGroup;
  const int64_t block = type == QuantizedType::kInt8 ? Int8Format::kBlock : Int16Format::kBlock;
  groups_ = (k + group - 1) / group;
  vectors_ = (n + kQuantizedLanes - 1) / kQuantizedLanes;
  const int64_t columns = vectors_ * kQuantizedLanes, blocks = std::max<int64_t>(1, (k + block - 1) / block);
  data_.reset(static_cast<char*>(::operator new[](std::max<int64_t>(1, bytes()), std::align_val_t{64})));
  scales_.resize(columns);
  sums_.resize(blocks * columns);
  const std::unique_ptr<bool[]> is_float(new bool[columns]());
  const std::vector<float> turned = transposed ? Turned(b, k, n, pf) : std::vector<float>();
  const float* const matrix = transposed ? turned.data() : b;
  pf.Run((n + kPanel - 1) / kPanel, kPanel * k / 2, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanel;
      PanelJob job = {matrix + first, n, k, std::min(kPanel, n - first),
                      std::min(kPanelVectors, vectors_ - p * kPanelVectors)};
      job.data = data_.get() + first * groups_ * 4;
      job.scales = scales_.data() + first;
      job.sums = sums_.data() + first;
      job.sums_step = columns;
      job.is_float = is_float.get() + first;
      QuantizedLoopsOf(level).pack(type, job);
    }
  });
  for (int64_t j = 0; j < n; ++j) {
    if (is_float[j]) float_columns_.push_back(j);
  }
}

}  // namespace tf_booster
