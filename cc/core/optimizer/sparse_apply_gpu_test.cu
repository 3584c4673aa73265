// The card's step on rows against the formula on the host. `make test-cuda` runs it on a card, `make test-ptx` without
// one.
#include "cc/core/optimizer/sparse_apply_gpu.h"

#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/optimizer/centered_rmsprop.h"
#include "cc/core/optimizer/momentum.h"
#include "cc/core/optimizer/rmsprop.h"

namespace tf_booster {
namespace {

constexpr int64_t kRows = 1000, kSize = 300;

template <class T>
T* OnCard(const std::vector<T>& values) {
  T* memory = nullptr;
  EXPECT_EQ(cudaMallocManaged(&memory, values.size() * sizeof(T) + 1), cudaSuccess);
  if (memory != nullptr) std::memcpy(memory, values.data(), values.size() * sizeof(T));
  return memory;
}

std::vector<float> Numbers(int64_t n, float first, float step) {
  std::vector<float> numbers(n);
  for (int64_t i = 0; i < n; ++i) numbers[i] = first + step * static_cast<float>(i % 97);
  return numbers;
}

// Rows 3 i + 1 are updated; two indices are no rows. `apply` does an element on the host: (grad, arrays, place).
template <class Index, class Inputs, class Apply>
void ExpectHostsBits(const Inputs& inputs, int slots, int64_t dim, const Apply& apply) {
  std::vector<Index> indices(kSize);
  for (int64_t i = 0; i < kSize; ++i) indices[i] = static_cast<Index>(3 * i + 1);
  indices[7] = -1;
  indices[8] = static_cast<Index>(kRows);
  const std::vector<float> grads = Numbers(kSize * dim, -0.7f, 0.013f);
  std::vector<std::vector<float>> host;
  gpu::VariableRows card = {};
  card.rows = kRows;
  card.dim = dim;
  for (int k = 0; k <= slots; ++k) {
    host.push_back(Numbers(kRows * dim, 0.25f * static_cast<float>(k + 1), 0.01f));
    (k == 0 ? card.value : card.slots[k - 1]) = OnCard(host[k]);
  }
  const gpu::RowGradients<Index> gradients = {OnCard(indices), OnCard(grads), kSize};
  const char* error = gpu::SparseApplyAsync(inputs, card, gradients, nullptr);
  EXPECT_EQ(error == nullptr, true);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t i = 0; i < kSize; ++i) {
    if (indices[i] < 0 || indices[i] >= kRows) continue;
    for (int64_t j = 0; j < dim; ++j) apply(grads[i * dim + j], host, indices[i] * dim + j);
  }
  for (int k = 0; k <= slots; ++k) {
    EXPECT_EQ(std::memcmp(host[k].data(), k == 0 ? card.value : card.slots[k - 1], kRows * dim * sizeof(float)), 0);
  }
}

float* Scalar(float value) { return OnCard(std::vector<float>{value}); }

TEST(MomentumEqualsTheHostsBits) {
  for (const bool nesterov : {false, true}) {
    const Momentum formula{{0.1f, 0.9f, nesterov}};
    const auto apply = [&](float grad, std::vector<std::vector<float>>& host, int64_t at) {
      formula(grad, host[0][at], host[1][at]);
    };
    const gpu::MomentumInputs inputs = {Scalar(0.1f), Scalar(0.9f), nesterov};
    ExpectHostsBits<int64_t>(inputs, 1, 1, apply);
    ExpectHostsBits<int32_t>(inputs, 1, 17, apply);
  }
}

TEST(RMSPropEqualsTheHostsBits) {
  const RMSProp formula{{0.1f, 0.9f, 0.5f, 1e-3f}};
  const auto apply = [&](float grad, std::vector<std::vector<float>>& host, int64_t at) {
    formula(grad, host[0][at], host[1][at], host[2][at]);
  };
  const gpu::RMSPropInputs inputs = {Scalar(0.1f), Scalar(0.9f), Scalar(0.5f), Scalar(1e-3f)};
  ExpectHostsBits<int64_t>(inputs, 2, 5, apply);
  ExpectHostsBits<int32_t>(inputs, 2, 64, apply);
}

TEST(CenteredRMSPropEqualsTheHostsBits) {
  const CenteredRMSProp formula{{0.1f, 0.9f, 0.5f, 4.0f}};
  const auto apply = [&](float grad, std::vector<std::vector<float>>& host, int64_t at) {
    formula(grad, host[0][at], host[1][at], host[2][at], host[3][at]);
  };
  const gpu::CenteredRMSPropInputs inputs = {Scalar(0.1f), Scalar(0.9f), Scalar(0.5f), Scalar(4.0f)};
  ExpectHostsBits<int64_t>(inputs, 3, 5, apply);
  ExpectHostsBits<int32_t>(inputs, 3, 8, apply);
}

}  // namespace
}  // namespace tf_booster
