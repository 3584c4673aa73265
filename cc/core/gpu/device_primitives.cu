#include "cc/core/gpu/device_primitives.h"

#include <cuda_runtime.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace tf_booster {
namespace gpu {
namespace {

const char* Message(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

}  // namespace

int64_t SortScratchBytes(int64_t n) {
  size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const uint64_t*>(nullptr),
                                  static_cast<uint64_t*>(nullptr), static_cast<const int32_t*>(nullptr),
                                  static_cast<int32_t*>(nullptr), n, 0, 64);
  return static_cast<int64_t>(bytes);
}

int64_t SumScratchBytes(int64_t n) {
  size_t bytes = 0;
  cub::DeviceScan::InclusiveSum(nullptr, bytes, static_cast<const int32_t*>(nullptr), static_cast<int32_t*>(nullptr),
                                n);
  return static_cast<int64_t>(bytes);
}

const char* SortPairsAsync(const uint64_t* keys, uint64_t* sorted_keys, const int32_t* values, int32_t* sorted_values,
                           int64_t n, int bits, void* scratch, void* stream) {
  size_t bytes = static_cast<size_t>(SortScratchBytes(n));
  return Message(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values, n, 0, bits,
                                                 static_cast<cudaStream_t>(stream)));
}

const char* InclusiveSumAsync(const int32_t* values, int32_t* sums, int64_t n, void* scratch, void* stream) {
  size_t bytes = static_cast<size_t>(SumScratchBytes(n));
  return Message(cub::DeviceScan::InclusiveSum(scratch, bytes, values, sums, n, static_cast<cudaStream_t>(stream)));
}

}  // namespace gpu
}  // namespace tf_booster
