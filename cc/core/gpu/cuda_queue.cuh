// Runs bodies on a CUDA stream. Nothing here waits for the card but FromHost and ToHost.
#ifndef TF_BOOSTER_CC_CORE_GPU_CUDA_QUEUE_CUH_
#define TF_BOOSTER_CC_CORE_GPU_CUDA_QUEUE_CUH_

#include <cuda_runtime.h>

#include "cc/core/gpu/device_primitives.h"
#include "cc/core/gpu/launch.h"

namespace tf_booster {
namespace gpu {

inline constexpr int kThreads = 256;
// More blocks than keep a card busy only queue: 132 multiprocessors (H100) of 8 such blocks.
inline constexpr int64_t kMaxBlocks = 132 * 8;

template <class Kernel>
__global__ void __launch_bounds__(kThreads, Kernel::kResidentBlocks)
    RunChunks(const __grid_constant__ Kernel kernel, int64_t chunks) {
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    kernel(Lane{threadIdx.x, kThreads}, chunk);
  }
}

// After an error nothing more is started.
class CudaQueue {
 public:
  explicit CudaQueue(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  // Null, or CUDA's message for the first thing that could not be started.
  const char* error() const { return error_; }

  template <class Kernel>
  void Run(int64_t chunks, const Kernel& kernel) {
    static_assert(sizeof(Kernel) + sizeof(int64_t) <= kArgumentBytes, "CUDA takes no more");
    if (error_ != nullptr || chunks == 0) return;
    RunChunks<<<static_cast<unsigned>(Min(chunks, kMaxBlocks)), kThreads, 0, stream_>>>(kernel, chunks);
    Check(cudaGetLastError());
  }

  void Zero(void* memory, int64_t bytes) {
    if (error_ == nullptr && bytes > 0) Check(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream_));
  }

  template <class Key>
  static int64_t SortBytes(int64_t n) {
    return SortScratchBytes<Key>(n);
  }
  template <class Key>
  void Sort(const Key* keys, Key* sorted_keys, const int32_t* values, int32_t* sorted_values, int64_t n, int bits,
            void* scratch) {
    if (error_ != nullptr || n == 0) return;
    error_ = SortPairsAsync(keys, sorted_keys, values, sorted_values, n, bits, scratch, stream_);
  }

  static int64_t SumBytes(int64_t n) { return SumScratchBytes(n); }
  template <class Values>
  void InclusiveSum(const Values& values, int32_t* sums, int64_t n, void* scratch) {
    if (error_ != nullptr || n == 0) return;
    error_ = InclusiveSumAsync(values, sums, n, scratch, stream_);
  }

  // The host's values may change as soon as this returns.
  template <class T>
  void FromHost(const T* host, int64_t n, T* values) {
    if (error_ != nullptr || n == 0) return;
    Check(cudaMemcpyAsync(values, host, n * sizeof(T), cudaMemcpyHostToDevice, stream_));
    if (error_ == nullptr) Check(cudaStreamSynchronize(stream_));
  }

  // Waits for all that was started, and has the values in host memory then.
  template <class T>
  void ToHost(const T* values, int64_t n, T* host) {
    if (error_ != nullptr || n == 0) return;
    Check(cudaMemcpyAsync(host, values, n * sizeof(T), cudaMemcpyDeviceToHost, stream_));
    if (error_ == nullptr) Check(cudaStreamSynchronize(stream_));
  }

  // A value that comes to the host while other things are done: one at a time, in pinned memory.
  template <class T>
  class Echo {
   public:
    Echo() = default;
    Echo(const Echo&) = delete;
    Echo& operator=(const Echo&) = delete;
    ~Echo() {
      if (arrived_ != nullptr) cudaEventSynchronize(arrived_);
      if (arrived_ != nullptr) cudaEventDestroy(arrived_);
      if (value_ != nullptr) cudaFreeHost(value_);
    }

    // Sends *from as it is when all is done that was started so far. False while one is under way, or where there is no
    // pinned memory: then nothing ever comes.
    bool Send(CudaQueue& queue, const T* from) {
      if (under_way_ || failed_ || queue.error_ != nullptr) return false;
      if (arrived_ == nullptr) {
        void* memory = nullptr;
        failed_ = cudaMallocHost(&memory, sizeof(T)) != cudaSuccess ||
                  cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming) != cudaSuccess;
        value_ = static_cast<T*>(memory);
        if (failed_) cudaGetLastError();  // Or the next launch would report it.
        if (failed_) return false;
      }
      queue.Check(cudaMemcpyAsync(value_, from, sizeof(T), cudaMemcpyDeviceToHost, queue.stream_));
      queue.Check(cudaEventRecord(arrived_, queue.stream_));
      under_way_ = queue.error_ == nullptr;
      return under_way_;
    }
    // Whether it has come in since the last time.
    bool Take(T* value) {
      if (!under_way_) return false;
      if (cudaEventQuery(arrived_) != cudaSuccess) {
        cudaGetLastError();  // "Not ready" is no error of the next launch.
        return false;
      }
      *value = *value_;
      under_way_ = false;
      return true;
    }

   private:
    T* value_ = nullptr;
    cudaEvent_t arrived_ = nullptr;
    bool under_way_ = false, failed_ = false;
  };

 private:
  void Check(cudaError_t error) {
    if (error != cudaSuccess) error_ = cudaGetErrorString(error);
  }

  cudaStream_t stream_;
  const char* error_ = nullptr;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_CUDA_QUEUE_CUH_
