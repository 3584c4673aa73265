// The dense GPU steps, every size, tail and alignment, against the step on each element: their bodies on the host,
// under nvcc the library's kernels on a card.
#include "cc/core/optimizer/multi_apply_body.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/optimizer/element_steps.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class T>
Array<T> Numbers(int64_t n, int seed) {
  Array<T> numbers(n);
  for (int64_t i = 0; i < n; ++i) {
    numbers[i] = T(0.05) + static_cast<T>(static_cast<int>((i * 7 + seed * 13) % 101)) / T(50);
  }
  return numbers;
}

// Where FTRL has its power among the hyperparameters; -1: that is another step.
template <class Step>
constexpr int kPowerAt = -1;
template <class T>
constexpr int kPowerAt<element::Ftrl<T>> = 3;
template <class T>
constexpr int kPowerAt<element::FtrlV2<T>> = 4;

#if defined(__CUDACC__)
template <class Step>
void Run(const std::vector<DenseJob<Step>>& jobs, const StepInputs<typename Step::Type>& inputs) {
  EXPECT_TRUE(MultiApplyAsync(jobs, inputs, false, nullptr) == nullptr);
  WaitForCard();
}

// A NaN has other bits on a card. CUDA's pow is up to 4 units of the last place off: here FTRL multiplies the
// difference of two powers below 11 by up to 2.1 and divides it by no less than 0.4.
template <class Step, class T>
bool Same(T a, T b, const Array<T>& scalars) {
  if (!(a == a) && !(b == b)) return true;
  if constexpr (kPowerAt<Step> >= 0 && sizeof(T) >= sizeof(float)) {
    if (scalars[kPowerAt<Step>] != T(-0.5)) return std::abs(a - b) <= 512 * std::numeric_limits<T>::epsilon();
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
#else
template <class Step>
void Run(const std::vector<DenseJob<Step>>& jobs, const StepInputs<typename Step::Type>& inputs) {
  HostQueue queue(2);
  MultiApply(queue, jobs, inputs, false);
}

template <class Step, class T>
bool Same(T a, T b, const Array<T>&) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
#endif

// Variables of `sizes`, their gradients one after another, so that most of them are not aligned. `power`: FTRL's.
template <class Step>
void ExpectElementSteps(const std::vector<int64_t>& sizes, double power = 0) {
  using T = typename Step::Type;
  constexpr int kArrays = 1 + Step::kSlots;
  Array<T> scalars = {T(0.9), T(0.99), T(0.1), T(0.8), T(0.7), T(0.01)};
  if constexpr (kPowerAt<Step> >= 0) {
    if (power != 0) scalars[kPowerAt<Step>] = T(power);
  }
  StepInputs<T> inputs = {};
  for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = &scalars[i];
  inputs.flag = true;
  const Step step(scalars.data(), true);
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  Array<T> grads = Numbers<T>(total, 1);
  for (size_t i = 0; i < grads.size(); i += 2) grads[i] = -grads[i];
  std::vector<Array<T>> arrays, want;
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
  Run(jobs, inputs);
  for (size_t a = 0; a < want.size(); ++a) {
    bool same = true;
    for (size_t i = 0; i < want[a].size(); ++i) same &= Same<Step>(arrays[a][i], want[a][i], scalars);
    EXPECT_TRUE(same);
  }
}

#if defined(__CUDACC__)
constexpr int64_t kLarge = 20000;  // The PTX machine takes microseconds a step.
#else
constexpr int64_t kLarge = 100000;
#endif
// The first 1000 and the 1003 are aligned for every type.
const std::vector<int64_t> kSizes = {0,  1000, 1003, 5,    0,    1,    2, 3, 4,      5,
                                     16, 0,    1000, 4095, 4096, 4097, 8, 8, kLarge, 0};

TEST(EveryElementStepsOnce) {
#define TFB_CHECK(Name)                             \
  ExpectElementSteps<element::Name<float>>(kSizes); \
  ExpectElementSteps<element::Name<double>>(kSizes);
  TFB_DENSE_STEPS(TFB_CHECK)
#undef TFB_CHECK
}

// FTRL's power is 1: what pow is off by on a card does not reach 16 bits.
TEST(EveryElementOf16BitsStepsOnce) {
#define TFB_CHECK(Name)                                   \
  ExpectElementSteps<element::Name<Float16>>(kSizes, -1); \
  ExpectElementSteps<element::Name<BFloat16>>(kSizes, -1);
#if defined(__CUDACC__)
  TFB_DENSE_STEPS(TFB_CHECK)
#else
  TFB_CHECK(Adam)  // The host would compile all of them for half a minute.
  TFB_CHECK(Ftrl)
#endif
#undef TFB_CHECK
}

TEST(FtrlByRoots) {
#define TFB_CHECK(T)                                      \
  ExpectElementSteps<element::Ftrl<T>>({1000, 77}, -0.5); \
  ExpectElementSteps<element::FtrlV2<T>>({1000, 77}, -0.5);
  TFB_CHECK(float)
  TFB_CHECK(double)
  TFB_CHECK(Float16)
  TFB_CHECK(BFloat16)
#undef TFB_CHECK
}

// One pointer of a Variable is off a multiple of 16 bytes: all go by elements then.
template <class Step>
void CheckMisaligned() {
  using T = typename Step::Type;
  constexpr int kArrays = 1 + Step::kSlots;
  constexpr int64_t kSize = 37;
  const Array<T> scalars = {T(0.9), T(0.99), T(0.1), T(0.8), T(0.7), T(0.01)};
  StepInputs<T> inputs = {};
  for (int i = 0; i < Step::kScalars; ++i) inputs.scalars[i] = &scalars[i];
  for (int misaligned = -1; misaligned <= kArrays; ++misaligned) {
    std::vector<Array<T>> memory, want;  // Of the arrays and the gradient, with an element more at either end.
    for (int k = 0; k <= kArrays; ++k) memory.push_back(Numbers<T>(kSize + 2, k));
    want = memory;
    DenseJob<Step> job;
    const auto first = [&](int k) { return k == misaligned ? 1 : 0; };
    for (int k = 0; k < kArrays; ++k) job.arrays[k] = memory[k].data() + first(k);
    job.grad = memory[kArrays].data() + first(kArrays);
    job.size = kSize;
    for (int64_t i = 0; i < kSize; ++i) {
      T values[kArrays];
      for (int k = 0; k < kArrays; ++k) values[k] = want[k][i + first(k)];
      Step(scalars.data(), false).Step(want[kArrays][i + first(kArrays)], values);
      for (int k = 0; k < kArrays; ++k) want[k][i + first(k)] = values[k];
    }
    Run<Step>({job}, inputs);
    for (int k = 0; k <= kArrays; ++k)
      EXPECT_TRUE(std::memcmp(&memory[k][0], &want[k][0], (kSize + 2) * sizeof(T)) == 0);
  }
}

TEST(AnyPointerMayBeMisaligned) {
  CheckMisaligned<element::Momentum<float>>();
  CheckMisaligned<element::Adam<double>>();
  CheckMisaligned<element::Adam<Float16>>();
  CheckMisaligned<element::Adam<BFloat16>>();
}

TEST(HundredsOfVariables) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 700; ++i) sizes.push_back(i * i % 97);
  ExpectElementSteps<element::Adam<float>>(sizes);
  ExpectElementSteps<element::CenteredRMSProp<double>>(sizes);
}

// More than all blocks of a launch do at a time.
TEST(MillionsOfElements) { ExpectElementSteps<element::GradientDescent<float>>({8, 4500001}); }

TEST(OneVariableTwiceStepsTwice) {
  using Step = element::GradientDescent<float>;
  Array<float> value(9, 1.0f);
  const Array<float> grad(9, 1.0f), lr(1, 0.25f);
  DenseJob<Step> job;
  job.arrays[0] = value.data();
  job.grad = grad.data();
  job.size = 9;
#if defined(__CUDACC__)
  EXPECT_TRUE(MultiApplyAsync<Step>({job, job}, {{lr.data()}, false}, true, nullptr) == nullptr);
  WaitForCard();
#else
  HostQueue queue;
  MultiApply<Step>(queue, {job, job}, {{lr.data()}, false}, true);
  EXPECT_EQ(queue.launches(), 2);
#endif
  EXPECT_TRUE(value == Array<float>(9, 0.5f));
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
