// Hashes and initial values on the device have the host's bits. Without a device it says so and passes: compiling it is
// the test then.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/initializer.h"
#include "cc/core/hash_table/probing.h"

namespace {

using namespace tf_booster;

constexpr int64_t kKeys = 4096;
constexpr int64_t kDim = 19;
constexpr int64_t kBuckets = 2048;

struct Outcome {
  uint64_t hash;
  uint32_t state;
  float row[kDim];
};

TFB_HOST_DEVICE int64_t KeyOf(int64_t i) { return static_cast<int64_t>(Mix64(static_cast<uint64_t>(i))); }

// All that host and device share, on one key.
TFB_HOST_DEVICE void Compute(const RowInitializer& init, const IndexRef& index, int64_t i, Outcome* out) {
  const uint32_t field = static_cast<uint32_t>(i % 3);
  out->hash = HashKey(KeyOf(i), field);
  const IndexEntry* entry = FindEntry<4>(index, out->hash, KeyOf(i), field);
  const Admission admission = Admit(entry == nullptr ? 0 : PendingCount(entry->state), 1 + i % 4, 3);
  out->state = entry == nullptr ? kEmpty : admission.admitted ? entry->state : admission.PendingState();
  InitialRow(init, KeyOf(i), kDim, out->row);
}

__global__ void ComputeAll(RowInitializer init, IndexRef index, Outcome* out) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < kKeys) Compute(init, index, i, out + i);
}

bool Failed(const char* what, cudaError_t error) {
  if (error != cudaSuccess) std::printf("%s: %s\n", what, cudaGetErrorString(error));
  return error != cudaSuccess;
}

// An index that holds two keys of three, rows and pending counts among them.
std::vector<IndexEntry> MakeIndex() {
  std::vector<IndexEntry> entries(kBuckets * 4, IndexEntry{0, 0, kEmpty});
  const IndexRef index = {entries.data(), kBuckets - 1};
  for (int64_t i = 0; i < kKeys; ++i) {
    const uint32_t field = static_cast<uint32_t>(i % 3);
    if (field == 2) continue;
    const uint32_t state = i % 2 ? kFirstRow + static_cast<uint32_t>(i) : kPendingFlag + 1;
    *FindVacancy<4>(index, HashKey(KeyOf(i), field)) = {KeyOf(i), field, state};
  }
  return entries;
}

int RunTest() {
  std::vector<IndexEntry> entries = MakeIndex();
  const size_t index_bytes = entries.size() * sizeof(IndexEntry), out_bytes = kKeys * sizeof(Outcome);
  IndexEntry* device_entries = nullptr;
  Outcome* device_out = nullptr;
  if (Failed("malloc", cudaMalloc(&device_entries, index_bytes)) ||
      Failed("malloc", cudaMalloc(&device_out, out_bytes)) ||
      Failed("copy", cudaMemcpy(device_entries, entries.data(), index_bytes, cudaMemcpyHostToDevice))) {
    return 1;
  }
  int different = 0;
  for (int kind = 0; kind < 4; ++kind) {
    const InitializerSpec spec = {static_cast<InitializerKind>(kind), -0.3f, 0.7f};
    const RowInitializer init = MakeRowInitializer(spec, "user_emb", 42);
    std::vector<Outcome> on_device(kKeys);
    ComputeAll<<<(kKeys + 127) / 128, 128>>>(init, {device_entries, kBuckets - 1}, device_out);
    if (Failed("kernel", cudaMemcpy(on_device.data(), device_out, out_bytes, cudaMemcpyDeviceToHost))) return 1;
    for (int64_t i = 0; i < kKeys; ++i) {
      Outcome on_host;
      Compute(init, {entries.data(), kBuckets - 1}, i, &on_host);
      different += on_host.hash != on_device[i].hash || on_host.state != on_device[i].state ||
                   std::memcmp(on_host.row, on_device[i].row, sizeof(on_host.row)) != 0;
    }
  }
  cudaFree(device_entries);
  cudaFree(device_out);
  std::printf("%d of %d results differ between host and device\n", different, static_cast<int>(4 * kKeys));
  return different == 0 ? 0 : 1;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no device: compiled only\n");
    return 0;
  }
  return RunTest();
}
