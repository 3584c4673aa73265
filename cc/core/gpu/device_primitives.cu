#include "cc/core/gpu/device_primitives.h"

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace tf_booster {
namespace gpu {
namespace {

struct OwnWord {
  OwnWords own;
  TFB_HOST_DEVICE int32_t operator()(int64_t i) const { return own[i]; }
};
auto IteratorOf(const OwnWords& own) {
  return thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), OwnWord{own});
}

template <class Iterator>
int64_t SumBytesOf(Iterator values, int64_t n) {
  size_t bytes = 0;
  cub::DeviceScan::InclusiveSum(nullptr, bytes, values, static_cast<int32_t*>(nullptr), n);
  return static_cast<int64_t>(bytes);
}

const char* Message(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

template <class Iterator>
const char* SumOf(Iterator values, int32_t* sums, int64_t n, void* scratch, void* stream) {
  size_t bytes = static_cast<size_t>(SumScratchBytes(n));
  return Message(cub::DeviceScan::InclusiveSum(scratch, bytes, values, sums, n, static_cast<cudaStream_t>(stream)));
}

}  // namespace

template <class Key>
int64_t SortScratchBytes(int64_t n) {
  size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const Key*>(nullptr), static_cast<Key*>(nullptr),
                                  static_cast<const int32_t*>(nullptr), static_cast<int32_t*>(nullptr), n, 0,
                                  static_cast<int>(8 * sizeof(Key)));
  return static_cast<int64_t>(bytes);
}

int64_t SumScratchBytes(int64_t n) {
  return std::max(SumBytesOf(static_cast<const int32_t*>(nullptr), n), SumBytesOf(IteratorOf({}), n));
}

template <class Key>
const char* SortPairsAsync(const Key* keys, Key* sorted_keys, const int32_t* values, int32_t* sorted_values, int64_t n,
                           int bits, void* scratch, void* stream) {
  size_t bytes = static_cast<size_t>(SortScratchBytes<Key>(n));
  return Message(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values, n, 0, bits,
                                                 static_cast<cudaStream_t>(stream)));
}

#define TFB_SORT(Key)                                \
  template int64_t SortScratchBytes<Key>(int64_t n); \
  template const char* SortPairsAsync(const Key*, Key*, const int32_t*, int32_t*, int64_t, int, void*, void*);
TFB_SORT(uint32_t)
TFB_SORT(uint64_t)
#undef TFB_SORT

const char* InclusiveSumAsync(const int32_t* values, int32_t* sums, int64_t n, void* scratch, void* stream) {
  return SumOf(values, sums, n, scratch, stream);
}
const char* InclusiveSumAsync(const OwnWords& values, int32_t* sums, int64_t n, void* scratch, void* stream) {
  return SumOf(IteratorOf(values), sums, n, scratch, stream);
}

}  // namespace gpu
}  // namespace tf_booster
