// What host and device share, on the device: hashes, first values, admission and optimizer formulas compile for it, and
// they must give the host's bits there. `make test-cuda` runs it on a card, `make test-ptx` without one.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/initializer.h"
#include "cc/core/hash_table/probing.h"
#include "cc/core/optimizer/row_optimizer.h"

namespace tf_booster {
namespace {

constexpr int kRows = 4096;

template <class F>
__global__ void Run(F body, decltype(body(0))* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kRows) out[i] = body(i);
}

// A NaN has other bits on a card.
template <class T>
bool Same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b);
}

// A body is a function object of one argument, run on both sides over 0 … kRows - 1.
template <class F>
void ExpectSameBits(const F& body) {
  using T = decltype(body(0));
  T* out = nullptr;
  EXPECT_EQ(cudaMallocManaged(&out, kRows * sizeof(T)), cudaSuccess);
  if (out == nullptr) return;
  Run<<<kRows / 128, 128>>>(body, out);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  int different = 0;
  for (int i = 0; i < kRows; ++i) {
    const T host = body(i);
    different += !Same(host, out[i]);
  }
  EXPECT_EQ(different, 0);
  cudaFree(out);
}

__host__ __device__ float Spread(uint64_t i) {  // About ±1, and never 0.
  return (static_cast<float>(Mix64(i) >> 40) + 0.5f) * 0x1p-23f - 1.0f;
}

struct Hash {
  __host__ __device__ uint64_t operator()(int i) const { return HashKey(static_cast<int64_t>(Mix64(i)), i % 3); }
};

struct Admitted {
  __host__ __device__ uint32_t operator()(int i) const {
    const Admission admission = Admit(i % 7, 1 + i % 5, 6);
    return admission.admitted ? 0 : admission.PendingState();
  }
};

struct Initial {
  RowInitializer init;
  __host__ __device__ float operator()(int i) const {
    float row[7];
    InitialRow(init, static_cast<int64_t>(Mix64(i)), 7, row);
    return row[i % 7];
  }
};

// One step from a state that `i` decides; the embedding and the slots mixed into one word.
template <class Formula>
struct Step {
  Formula formula;
  __host__ __device__ float operator()(int i) const {
    float value = Spread(8 * i);
    float slots[3] = {0.1f + Spread(8 * i + 1) * Spread(8 * i + 1), 0.1f + Spread(8 * i + 2) * Spread(8 * i + 2),
                      2.0f + Spread(8 * i + 3)};
    const float grad = Spread(8 * i + 4);
    if constexpr (Formula::kNumSlots == 0) formula(grad, value);
    if constexpr (Formula::kNumSlots == 1) formula(grad, value, slots[0]);
    if constexpr (Formula::kNumSlots == 2) formula(grad, value, slots[0], slots[1]);
    if constexpr (Formula::kNumSlots == 3) formula(grad, value, slots[0], slots[1], slots[2]);
    return i % 4 == 0 ? value : slots[i % 4 - 1];
  }
};

RowInitializer Initializer(InitializerKind kind) {
  InitializerSpec spec;
  spec.kind = kind;
  spec.a = -0.5f;
  spec.b = 0.5f;
  return MakeRowInitializer(spec, "field", 17);
}

}  // namespace

TEST(HashesAreTheHosts) { ExpectSameBits(Hash()); }
TEST(AdmissionIsTheHosts) { ExpectSameBits(Admitted()); }

TEST(FirstValuesAreTheHosts) {
  for (InitializerKind kind : {InitializerKind::kConstant, InitializerKind::kUniform, InitializerKind::kNormal,
                               InitializerKind::kTruncatedNormal}) {
    ExpectSameBits(Initial{Initializer(kind)});
  }
}

TEST(StepsAreTheHosts) {
  ExpectSameBits(Step<GradientDescent>{{{0.1f}}});
  ExpectSameBits(Step<Momentum>{{{0.1f, 0.9f, true}}});
  ExpectSameBits(Step<KerasMomentum>{{{0.1f, 0.9f, true}}});
  ExpectSameBits(Step<Adagrad>{{{0.1f}}});
  ExpectSameBits(Step<AdagradV2>{{{0.1f, 1e-7f}}});
  ExpectSameBits(Step<Adam>{Adam({0.9f, 0.999f, 0.1f, 0.9f, 0.999f, 1e-8f})});
  ExpectSameBits(Step<Ftrl<true, false>>{{{0.1f, 0.01f, 0.01f, 0.01f}}});
  ExpectSameBits(Step<RMSProp>{{{0.1f, 0.9f, 0.5f, 1e-7f}}});
  ExpectSameBits(Step<CenteredRMSProp>{{{0.1f, 0.9f, 0.5f, 1e-7f}}});
}

}  // namespace tf_booster
