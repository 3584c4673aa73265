// Formulas on Variables of every size, tail and alignment, against the same operations on each element: the body on the
// host, under nvcc the library's kernel on a card.
#include "cc/core/optimizer/multi_formula_body.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

template <class T>
void Run(const std::vector<FormulaJob<T>>& jobs, const FormulaInputs<T>& inputs, bool one_after_another = false) {
#if defined(__CUDACC__)
  EXPECT_TRUE(MultiFormulaAsync(jobs, inputs, one_after_another, nullptr) == nullptr);
  WaitForCard();
#else
  HostQueue queue(2);
  MultiFormula(queue, jobs, inputs, one_after_another);
#endif
}

// A NaN has other bits on a card.
template <class T>
bool Same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (!(a == a) && !(b == b));
}

template <class T>
Array<T> Values(int64_t n, int seed) {
  Array<T> values(n);
  for (int64_t i = 0; i < n; ++i) {
    const int k = static_cast<int>((i * 7 + seed * 13) % 101);
    values[i] = T(static_cast<float>(k - 40) / 32);
  }
  return values;
}

// Adam with decay of the weights, as BERT's program has it: arrays var, m and v, a gradient, and the numbers below.
Formula AdamWithDecay() {
  Formula formula;
  // Places: var 0, m 1, v 2, grad 3; beta1 4, 1 - beta1 5, beta2 6, 1 - beta2 7, epsilon 8, decay 9, lr 10.
  const std::string wrong = MakeFormula(
      3, 1, 7,
      {"Mul", "Mul", "Add", "Mul", "Square", "Mul", "AddV2", "Sqrt", "Add", "RealDiv", "Mul", "AddV2", "Mul", "Sub"},
      {4, 1, 5, 3, 11, 12, 6, 2, 3, 7, 15, 14, 16, 17, 18, 8, 13, 19, 9, 0, 20, 21, 10, 22, 0, 23}, {24, 13, 17},
      &formula);
  EXPECT_EQ(wrong, "");
  return formula;
}

template <class T>
void ExpectAdamWithDecay(const std::vector<int64_t>& sizes, int shift) {
  const Array<T> numbers = {T(0.75), T(0.25), T(0.875), T(0.125), T(0.0625), T(0.03125), T(0.5)};
  FormulaInputs<T> inputs;
  inputs.formula = AdamWithDecay();
  for (int i = 0; i < 7; ++i) inputs.numbers[i] = &numbers[i];
  std::vector<Array<T>> arrays, want;
  std::vector<FormulaJob<T>> jobs;
  for (const int64_t size : sizes) {
    for (int k = 0; k < 4; ++k) arrays.push_back(Values<T>(size + shift, k));
    for (T& v : arrays[arrays.size() - 2]) v = Abs(v);
  }
  want = arrays;
  for (size_t j = 0; j < sizes.size(); ++j) {
    FormulaJob<T> job;
    for (int k = 0; k < 3; ++k) job.arrays[k] = arrays[4 * j + k].data() + (k == 1 ? shift : 0);
    job.tensors[0] = arrays[4 * j + 3].data();
    job.size = sizes[j];
    jobs.push_back(job);
    for (int64_t i = 0; i < sizes[j]; ++i) {
      T &var = want[4 * j][i], &m = want[4 * j + 1][i + shift], &v = want[4 * j + 2][i];
      const T grad = want[4 * j + 3][i], first = numbers[0] * m, second = numbers[1] * grad;
      m = first + second;
      const T third = numbers[2] * v, square = grad * grad, fourth = numbers[3] * square;
      v = third + fourth;
      const T root = Sqrt(v) + numbers[4], ratio = m / root, decay = numbers[5] * var, update = ratio + decay;
      const T step = numbers[6] * update;
      var = var - step;
    }
  }
  Run(jobs, inputs);
  for (size_t a = 0; a < want.size(); ++a) {
    bool same = true;
    for (size_t i = 0; i < want[a].size(); ++i) same &= Same(arrays[a][i], want[a][i]);
    EXPECT_TRUE(same);
  }
}

#if defined(__CUDACC__)
constexpr int64_t kLarge = 3000;  // The PTX machine takes microseconds a step.
#else
constexpr int64_t kLarge = 100000;
#endif

TEST(EveryElementStepsOnce) {
  std::vector<int64_t> sizes = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 0, 1000, 1003, kLarge, 0};
  for (int64_t i = 0; i < 60; ++i) sizes.push_back(i * i % 97);  // More than one launch takes.
  ExpectAdamWithDecay<float>(sizes, 0);
  ExpectAdamWithDecay<double>(sizes, 0);
  ExpectAdamWithDecay<Float16>(sizes, 0);
  ExpectAdamWithDecay<BFloat16>(sizes, 0);
}

TEST(AnyPointerMayBeMisaligned) {
  ExpectAdamWithDecay<float>({37, 64}, 1);
  ExpectAdamWithDecay<Float16>({37, 64}, 1);
}

TEST(EachOperation) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    const char* name;
    float a, b, want;
  } cases[] = {{"Add", 1, 2, 3},         {"AddV2", 1, 2, 3},          {"Sub", 1, 2, -1},    {"Mul", 3, 2, 6},
               {"RealDiv", 1, 4, 0.25f}, {"RealDiv", 1, 0, infinity}, {"Maximum", 1, 2, 2}, {"Maximum", 2, 1, 2},
               {"Minimum", 1, 2, 1},     {"Minimum", 2, 1, 1},        {"Neg", 2, 0, -2},    {"Abs", -2, 0, 2},
               {"Sign", -3, 0, -1},      {"Sign", 3, 0, 1},           {"Sign", 0, 0, 0},    {"Square", -3, 0, 9},
               {"Sqrt", 9, 0, 3},        {"Rsqrt", 4, 0, 0.5f}};
  for (const auto& c : cases) {
    Formula formula;
    const bool binary = MakeFormula(1, 1, 0, {c.name}, {0, 1}, {2}, &formula).empty();
    if (!binary) EXPECT_EQ(MakeFormula(1, 1, 0, {c.name}, {0}, {2}, &formula), "");
    Array<float> array(5, c.a);
    const Array<float> tensor(5, c.b);
    FormulaJob<float> job;
    job.arrays[0] = array.data();
    job.tensors[0] = tensor.data();
    job.size = 5;
    Run<float>({job}, {formula, {}});
    for (const float value : array) EXPECT_TRUE(Same(value, c.want));
  }
}

// Arrays without a new value stay as they are, and two may exchange theirs by way of operations.
TEST(ResultsAreWrittenAtTheEnd) {
  Formula formula;
  EXPECT_EQ(MakeFormula(3, 0, 1, {"Mul", "Mul"}, {1, 3, 0, 3}, {4, 5, 2}, &formula), "");
  Array<float> a(6, 1.0f), b(6, 2.0f), c(6, 3.0f);
  const Array<float> one(1, 1.0f);
  FormulaJob<float> job;
  job.arrays[0] = a.data();
  job.arrays[1] = b.data();
  job.arrays[2] = c.data();
  job.size = 6;
  Run<float>({job}, {formula, {one.data()}});
  EXPECT_TRUE(a == Array<float>(6, 2.0f) && b == Array<float>(6, 1.0f) && c == Array<float>(6, 3.0f));
}

TEST(OneVariableTwiceStepsTwice) {
  Formula formula;
  EXPECT_EQ(MakeFormula(1, 1, 0, {"Sub"}, {0, 1}, {2}, &formula), "");
  Array<float> value(9, 1.0f);
  const Array<float> quarter(9, 0.25f);
  FormulaJob<float> job;
  job.arrays[0] = value.data();
  job.tensors[0] = quarter.data();
  job.size = 9;
  Run<float>({job, job}, {formula, {}}, true);
  EXPECT_TRUE(value == Array<float>(9, 0.5f));
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
