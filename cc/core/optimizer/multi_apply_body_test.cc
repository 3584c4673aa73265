// The bodies of the dense GPU steps, run on the host: every size, tail and alignment against the step on each element.
#include "cc/core/optimizer/multi_apply_body.h"

#include <cstring>
#include <memory>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/optimizer/element_steps.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class T>
std::vector<T> Numbers(int64_t n, int seed) {
  std::vector<T> numbers(n);
  for (int64_t i = 0; i < n; ++i) numbers[i] = T(0.05) + static_cast<T>((i * 7 + seed * 13) % 101) / T(50);
  return numbers;
}

// Variables of `sizes`, their gradients one after another, so that most of them are not aligned.
template <class Step>
void ExpectElementSteps(const std::vector<int64_t>& sizes) {
  using T = typename Step::Type;
  constexpr int kArrays = 1 + Step::kSlots;
  const std::vector<T> scalars = {T(0.9), T(0.99), T(0.1), T(0.8), T(0.7), T(0.01)};
  StepInputs<T> inputs = {};
  for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = &scalars[i];
  inputs.flag = true;
  const Step step(scalars.data(), true);
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  std::vector<T> grads = Numbers<T>(total, 1);
  for (size_t i = 0; i < grads.size(); i += 2) grads[i] = -grads[i];
  std::vector<std::vector<T>> arrays, want;
  std::vector<DenseJob<Step>> jobs;
  for (const int64_t size : sizes) {
    for (int k = 0; k < kArrays; ++k) arrays.push_back(Numbers<T>(size, k + 2));
  }
  want = arrays;
  int64_t first = 0;
  for (size_t j = 0; j < sizes.size(); ++j) {
    DenseJob<Step> job;
    for (int k = 0; k < kArrays; ++k) job.arrays[k] = arrays[j * kArrays + k].data();
    job.grad = grads.data() + first;
    job.size = sizes[j];
    jobs.push_back(job);
    for (int64_t i = 0; i < sizes[j]; ++i) {
      T values[kArrays];
      for (int k = 0; k < kArrays; ++k) values[k] = want[j * kArrays + k][i];
      step.Step(grads[first + i], values);
      for (int k = 0; k < kArrays; ++k) want[j * kArrays + k][i] = values[k];
    }
    first += sizes[j];
  }
  HostQueue queue(2);
  MultiApply(queue, jobs, inputs, false);
  for (size_t a = 0; a < want.size(); ++a) {
    // Empty vectors have no memory that could be compared.
    EXPECT_TRUE(want[a].empty() || std::memcmp(want[a].data(), arrays[a].data(), want[a].size() * sizeof(T)) == 0);
  }
}

TEST(EveryElementStepsOnce) {
  const std::vector<int64_t> sizes = {0, 1, 2, 3, 4, 5, 16, 0, 1000, 4095, 4096, 4097, 8, 8, 100000, 0};
#define TFB_CHECK(Name)                            \
  ExpectElementSteps<element::Name<float>>(sizes); \
  ExpectElementSteps<element::Name<double>>(sizes);
  TFB_DENSE_STEPS(TFB_CHECK)
#undef TFB_CHECK
}

TEST(HundredsOfVariables) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 700; ++i) sizes.push_back(i * i % 97);
  ExpectElementSteps<element::Adam<float>>(sizes);
  ExpectElementSteps<element::CenteredRMSProp<double>>(sizes);
}

TEST(OneVariableTwiceStepsTwice) {
  using Step = element::GradientDescent<float>;
  std::vector<float> value(9, 1.0f);
  const std::vector<float> grad(9, 1.0f);
  const float lr = 0.25f;
  DenseJob<Step> job;
  job.arrays[0] = value.data();
  job.grad = grad.data();
  job.size = 9;
  HostQueue queue;
  MultiApply<Step>(queue, {job, job}, {{&lr}, false}, true);
  EXPECT_TRUE(value == std::vector<float>(9, 0.5f));
  EXPECT_EQ(queue.launches(), 2);
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
