// The GPU's steps on elements against the Eigen expressions of the CPU's kernels, which have TensorFlow's bits.
#include "cc/core/optimizer/element_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/optimizer/row_steps.h"
#include "cc/tf/kernels/sparse_formulas.h"

namespace tf_booster {
namespace {

constexpr int64_t kSize = 64;

// What Eigen calls the type, and how far apart numbers near 1 are.
template <class T>
struct Traits {
  using Eigen = T;
  static constexpr double kEpsilon = std::numeric_limits<T>::epsilon();
};
template <>
struct Traits<Float16> {
  using Eigen = ::Eigen::half;
  static constexpr double kEpsilon = Float16::kEpsilon;
};
template <>
struct Traits<BFloat16> {
  using Eigen = ::Eigen::bfloat16;
  static constexpr double kEpsilon = BFloat16::kEpsilon;
};
template <class T>
using EigenOf = typename Traits<T>::Eigen;

template <class T>
std::vector<T> Numbers(int seed, double scale, double shift) {
  std::vector<T> numbers(kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    numbers[i] = T(shift + scale * std::sin(static_cast<double>(i * 3 + seed * 17)));
  }
  return numbers;
}

double Double(double value) { return value; }
template <class Format>
double Double(HalfNumber<Format> value) {
  return float(value);
}

template <class T>
void ExpectClose(const std::vector<T>& got, const std::vector<T>& want, const char* name, int array) {
  // Where terms nearly cancel only the size of the terms, about 1, tells how much rounding there is.
  const double tolerance = (sizeof(T) == 2 ? 4 : 32) * Traits<T>::kEpsilon;
  for (int64_t i = 0; i < kSize; ++i) {
    const double g = Double(got[i]), w = Double(want[i]);
    const bool close =
        std::isnan(w) ? std::isnan(g) : g == w || std::abs(g - w) <= tolerance * std::max(1.0, std::abs(w));
    if (!close) testing::ExpectEqual(g, w, name, __FILE__, 1000 * array + static_cast<int>(i));
  }
}

// run: the reference on all elements; run_element: the step on one; odd: what the first gradients are.
template <class T, class Step, class Reference, class Run, class RunElement>
void Compare(const std::vector<T>& scalars, bool flag, const char* name, Run run, RunElement run_element,
             const std::vector<double>& odd = {}) {
  constexpr int kArrays = 1 + Step::kSlots;
  static_assert(Step::kSlots == Reference::kSlots, "");
  EXPECT_EQ(static_cast<size_t>(Step::kScalars), Reference::Names().size());
  std::vector<std::vector<T>> got;
  // Slots are positive, and the second above the square of the first, as a mean of squares is.
  for (int k = 0; k < kArrays; ++k) got.push_back(Numbers<T>(k, 0.2, 0.6 * k));
  std::vector<T> grad = Numbers<T>(9, 1, 0);
  std::transform(odd.begin(), odd.end(), grad.begin(), [](double number) { return T(number); });
  std::vector<std::vector<T>> want = got;
  using Number = EigenOf<T>;
  Number* p[kArrays];
  for (int k = 0; k < kArrays; ++k) p[k] = reinterpret_cast<Number*>(want[k].data());
  const Step step(scalars.data(), flag);
  run(Reference(reinterpret_cast<const Number*>(scalars.data()), flag), p,
      reinterpret_cast<const Number*>(grad.data()));
  for (int64_t i = 0; i < kSize; ++i) {
    T v[kArrays];
    for (int k = 0; k < kArrays; ++k) v[k] = got[k][i];
    run_element(step, grad[i], v);
    for (int k = 0; k < kArrays; ++k) got[k][i] = v[k];
  }
  for (int k = 0; k < kArrays; ++k) ExpectClose(got[k], want[k], name, k);
}

template <class T>
std::vector<std::vector<T>> Hyperparameters() {
  // In the places of FTRL: lr, l1, l2, (shrinkage,) power: a root, another power, no l1.
  return {{T(0.5), T(0.25), T(0.125), T(-0.5), T(-0.5), T(1e-3)},
          {T(0.9), T(0.5), T(0.1), T(-0.25), T(-0.75), T(1e-2)},
          {T(0.25), T(0), T(0.5), T(-0.5), T(-0.5), T(0.5)}};
}

// Places 3 and 4 are powers for FTRL; Adam's and AdaMax's betas must be below 1.
template <class T>
std::vector<std::vector<T>> Positive() {
  return {{T(0.9), T(0.99), T(0.1), T(0.8), T(0.7), T(0.01)}, {T(0.5), T(0.25), T(0.5), T(0.25), T(0.5), T(0.5)}};
}

template <class T, template <class> class Step, template <class> class Reference>
void CompareDense(const std::vector<std::vector<T>>& hyperparameters, const char* name) {
  for (const auto& scalars : hyperparameters) {
    for (const bool flag : {false, true}) {
      Compare<T, Step<T>, Reference<EigenOf<T>>>(
          scalars, flag, name, [](const auto& f, EigenOf<T>* const* p, const EigenOf<T>* g) { f.Step(p, g, kSize); },
          [](const Step<T>& step, T grad, T* v) { step.Step(grad, v); }, {std::nan(""), 0.0, std::nan("")});
    }
  }
}

// Rows with a gradient, and, for steps of every row, those without.
template <class T, template <class> class Step, template <class> class Reference>
void CompareSparse(const std::vector<std::vector<T>>& hyperparameters, const char* name) {
  static_assert(Step<T>::kEveryRow == Reference<T>::kEveryRow, "");
  for (const auto& scalars : hyperparameters) {
    for (const int choice : {0, 1, 2, 3}) {
      const bool flag = choice % 2 == 1, has_gradient = choice < 2;
      Compare<T, Step<T>, Reference<T>>(
          scalars, flag, name,
          [&](const auto& f, T* const* p, const T* g) {
            if constexpr (Step<T>::kEveryRow) f.Decay(p, kSize);
            if (has_gradient) f.Step(p, g, kSize);
            if constexpr (Step<T>::kEveryRow) f.Finish(p, kSize);
          },
          [&](const Step<T>& step, T grad, T* v) {
            step.Decay(v);
            if (has_gradient) step.Step(grad, v);
            step.Finish(v);
          });
    }
  }
}

#define COMPARE_DENSE(Name, list) CompareDense<T, element::Name, dense::Name>(list, #Name)
#define COMPARE_SPARSE(Name, list) CompareSparse<T, row::Name, sparse::Name>(list, #Name)

template <class T>
void CompareAllDense() {
  const auto positive = Positive<T>(), any = Hyperparameters<T>();
  COMPARE_DENSE(GradientDescent, positive);
  COMPARE_DENSE(ProximalGradientDescent, any);
  COMPARE_DENSE(Momentum, positive);
  COMPARE_DENSE(KerasMomentum, positive);
  COMPARE_DENSE(Adagrad, positive);
  COMPARE_DENSE(AdagradV2, positive);
  COMPARE_DENSE(ProximalAdagrad, any);
  COMPARE_DENSE(Adadelta, positive);
  COMPARE_DENSE(Adam, positive);
  COMPARE_DENSE(AdamWithAmsgrad, positive);
  COMPARE_DENSE(AdaMax, positive);
  COMPARE_DENSE(Ftrl, any);
  COMPARE_DENSE(FtrlV2, any);
  COMPARE_DENSE(RMSProp, positive);
  COMPARE_DENSE(CenteredRMSProp, positive);
  COMPARE_DENSE(MovingAverage, any);
}

template <class T>
void CompareAllSparse() {
  const auto positive = Positive<T>(), any = Hyperparameters<T>();
  COMPARE_SPARSE(GradientDescent, positive);
  COMPARE_SPARSE(Momentum, positive);
  COMPARE_SPARSE(KerasMomentum, positive);
  COMPARE_SPARSE(Adagrad, positive);
  COMPARE_SPARSE(AdagradV2, positive);
  COMPARE_SPARSE(Adadelta, positive);
  COMPARE_SPARSE(Ftrl, any);
  COMPARE_SPARSE(FtrlV2, any);
  COMPARE_SPARSE(RMSProp, positive);
  COMPARE_SPARSE(CenteredRMSProp, positive);
  COMPARE_SPARSE(Adam, positive);
  COMPARE_SPARSE(KerasRMSProp, positive);
  COMPARE_SPARSE(KerasCenteredRMSProp, positive);
}

TEST(StepsOfFloatAreTheCpus) {
  CompareAllDense<float>();
  CompareAllSparse<float>();
}
TEST(StepsOfDoubleAreTheCpus) {
  CompareAllDense<double>();
  CompareAllSparse<double>();
}
TEST(StepsOfFloat16AreTheCpus) { CompareAllDense<Float16>(); }
TEST(StepsOfBFloat16AreTheCpus) { CompareAllDense<BFloat16>(); }

// Every number there is, and what lies between two of them, above and below.
template <class T>
void CompareRounding() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    T number;
    number.bits = static_cast<uint16_t>(bits);
    const EigenOf<T> reference = Eigen::numext::bit_cast<EigenOf<T>>(number.bits);
    const float value = float(number);
    EXPECT_EQ(value == value, !(Eigen::numext::isnan)(reference));
    if (!(value == value)) continue;
    EXPECT_EQ(FloatBits(value), FloatBits(static_cast<float>(reference)));
    for (const uint32_t apart : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFFFFFu}) {
      const float near = FloatOfBits(FloatBits(value) + apart);
      if (!(near == near)) continue;
      EXPECT_EQ(T(near).bits, Eigen::numext::bit_cast<uint16_t>(EigenOf<T>(near)));
    }
  }
  EXPECT_FALSE(float(T(std::nanf(""))) == float(T(std::nanf(""))));
}
TEST(RoundingIsEigens) {
  CompareRounding<Float16>();
  CompareRounding<BFloat16>();
}

}  // namespace
}  // namespace tf_booster
