// What the card's benchmarks share: memory, the median time of a run, and a line beside a copy's.
#ifndef TF_BOOSTER_CC_CORE_GPU_BENCH_CUH_
#define TF_BOOSTER_CC_CORE_GPU_BENCH_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// There when the program runs on cc/ptx_machine in place of a card; true if it counts. What follows belongs to a phase
// of that name, null: to none.
extern "C" __attribute__((weak)) int ptx_machine_phase(const char* name, double units, double bytes);

namespace tf_booster {
namespace gpu {

inline constexpr int kRounds = 21;

// Memory of the card, of zeros.
template <class T>
T* OnCard(int64_t n) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, n * sizeof(T)) != cudaSuccess || cudaMemset(memory, 0, n * sizeof(T)) != cudaSuccess) {
    std::fprintf(stderr, "no memory for %lld values\n", static_cast<long long>(n));
    std::exit(1);
  }
  return static_cast<T*>(memory);
}

template <class T>
T* OnCard(const std::vector<T>& values) {
  T* memory = OnCard<T>(static_cast<int64_t>(values.size()));
  if (cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) != cudaSuccess) std::exit(1);
  return memory;
}

[[noreturn]] inline void Fail(const char* error) {
  std::fprintf(stderr, "failed: %s\n", error != nullptr ? error : cudaGetErrorString(cudaGetLastError()));
  std::exit(1);
}

// Lets a run be counted where there is something that counts, and false elsewhere. The run before leaves the caches as
// one run after the other does.
template <class Run>
bool Counted(const char* name, double units, double bytes, const Run& run) {
  if (ptx_machine_phase == nullptr) return false;
  for (int i = 0; i < 2; ++i) {
    if (ptx_machine_phase(name, units, bytes) == 0) return false;
    if (const char* error = run()) Fail(error);
  }
  ptx_machine_phase(nullptr, 0, 0);
  return true;
}

// Median seconds of a run.
template <class Run>
double Seconds(const Run& run) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int i = 0; i < kRounds; ++i) {
    cudaEventRecord(begin);
    const char* error = run();
    cudaEventRecord(end);
    if (error != nullptr || cudaEventSynchronize(end) != cudaSuccess) Fail(error);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms / 1000);
  }
  std::sort(times.begin(), times.end());
  return times[kRounds / 2];
}

inline double copy_rate = 0;

// bytes: read and written. The first run reported is the copy.
template <class Run>
void Report(const char* name, double bytes, const Run& run) {
  if (Counted(name, 0, bytes, run)) return;
  const double rate = bytes / Seconds(run) / 1e9;
  if (copy_rate == 0) copy_rate = rate;
  std::printf("%-28s %8.0f GB/s %5.2f of the copy\n", name, rate, rate / copy_rate);
}

// A copy of so many floats within the card's memory.
inline void ReportCopy(int64_t floats) {
  float *const from = OnCard<float>(floats), *const to = OnCard<float>(floats);
  Report("copy", 2.0 * sizeof(float) * static_cast<double>(floats), [&] {
    const cudaError_t error = cudaMemcpyAsync(to, from, floats * sizeof(float), cudaMemcpyDeviceToDevice);
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  });
  cudaFree(from);
  cudaFree(to);
}

// The same of what works on keys, as others report it.
template <class Run>
void ReportKeys(const char* name, double keys, double bytes_per_key, const Run& run) {
  if (Counted(name, keys, keys * bytes_per_key, run)) return;
  const double seconds = Seconds(run), rate = keys * bytes_per_key / seconds / 1e9;
  std::printf("%-28s %8.0f GB/s %5.2f of the copy, %7.2f G keys/s\n", name, rate, rate / copy_rate,
              keys / seconds / 1e9);
}

// Of what is no stream of bytes.
template <class Run>
void ReportTime(const char* name, const Run& run) {
  if (Counted(name, 0, 0, run)) return;
  std::printf("%-28s %8.3f ms\n", name, Seconds(run) * 1e3);
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_BENCH_CUH_
