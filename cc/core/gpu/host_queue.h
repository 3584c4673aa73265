// Runs the bodies of GPU kernels on the host, for tests: blocks last to first and in parallel, an odd number of lanes a
// block, so that what depends on the order of threads or on 32 of them shows up, under the sanitizers too.
#ifndef TF_BOOSTER_CC_CORE_GPU_HOST_QUEUE_H_
#define TF_BOOSTER_CC_CORE_GPU_HOST_QUEUE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "cc/core/base/thread_for.h"
#include "cc/core/gpu/launch.h"

namespace tf_booster {
namespace gpu {

class HostQueue {
 public:
  explicit HostQueue(int threads = 1, int64_t lanes = 7) : threads_(threads), lanes_(lanes) {}

  const char* error() const { return error_.load(); }
  // From now on all queues of the program say so, as CUDA does behind an error; null: no more.
  static void Break(const char* error) { error_ = error; }
  int64_t launches() const { return launches_; }
  // How often all queues of the program waited for the card, if there were one.
  static int64_t waits() { return waits_.load(); }

  template <class Kernel>
  void Run(int64_t chunks, const Kernel& kernel) {
    static_assert(sizeof(Kernel) + sizeof(int64_t) <= kArgumentBytes, "CUDA takes no more");
    ++launches_;
    threads_.Run(chunks, 1 << 20, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = end; chunk-- > begin;) {
        for (int64_t rank = lanes_; rank-- > 0;) kernel(Lane{rank, lanes_}, chunk);
      }
    });
  }

  void Zero(void* memory, int64_t bytes) {
    if (bytes > 0) std::memset(memory, 0, static_cast<size_t>(bytes));
  }

  template <class Key>
  static int64_t SortBytes(int64_t) {
    return 0;
  }
  template <class Key>
  void Sort(const Key* keys, Key* sorted_keys, const int32_t* values, int32_t* sorted_values, int64_t n, int bits,
            void*) {
    const Key mask = static_cast<Key>(bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (int64_t i = 0; i < n; ++i) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
  }

  static int64_t SumBytes(int64_t) { return 0; }
  template <class Values>
  void InclusiveSum(const Values& values, int32_t* sums, int64_t n, void*) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sums[i] = sum += values[i];
  }

  // As CudaQueue's. It comes in with the second look, as what a card sends does.
  template <class T>
  class Echo {
   public:
    bool Send(HostQueue&, const T* from) {
      if (looks_ > 0) return false;
      value_ = *from;
      looks_ = 2;
      return true;
    }
    bool Take(T* value) {
      if (looks_ == 0 || --looks_ > 0) return false;
      *value = value_;
      return true;
    }

   private:
    T value_;
    int looks_ = 0;
  };

  template <class T>
  void FromHost(const T* host, int64_t n, T* values) {
    std::copy(host, host + n, values);
  }

  template <class T>
  void ToHost(const T* values, int64_t n, T* host) {
    if (n <= 0) return;
    ++waits_;
    std::copy(values, values + n, host);
  }

 private:
  ThreadFor threads_;
  int64_t lanes_;
  int64_t launches_ = 0;
  inline static std::atomic<int64_t> waits_{0};
  inline static std::atomic<const char*> error_{nullptr};
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_HOST_QUEUE_H_
