// How GPU kernels are written here: as a body over units (elements, rows, 16-byte packs) of many jobs (tensors), which
// a queue runs. CudaQueue starts it on a stream, HostQueue loops over it, so that index arithmetic, tails and empty
// jobs are tested without a card.
//
// The table of jobs travels as the kernel's argument: one launch serves as many tensors as 4 KB hold (for Adam about
// 75), and no copy, no pinned memory and no wait is needed. More tensors take more launches; putting 1000 pointers into
// the card's memory first would take as many.
#ifndef TF_BOOSTER_CC_CORE_GPU_LAUNCH_H_
#define TF_BOOSTER_CC_CORE_GPU_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/base/host_device.h"

namespace tf_booster {
namespace gpu {

// Which thread of a block this is. Threads of a block share no memory and do not wait for each other.
struct Lane {
  int64_t rank;
  int64_t size;
};

// What a block does at a time: a unit a thread. Of many units of many jobs four, so that the search for the job costs
// little beside them; of fewer, four would leave multiprocessors idle.
inline constexpr int64_t kUnitsPerChunk = 256;
inline constexpr int64_t kUnitsPerSearch = 4 * kUnitsPerChunk;
inline constexpr int64_t kManyUnits = int64_t{1} << 20;
// CUDA takes so much as the argument of a kernel on every card and driver.
inline constexpr size_t kArgumentBytes = 4096;

TFB_HOST_DEVICE int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
TFB_HOST_DEVICE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// What a thread runs for its units: the body itself, or what body.Prepare() makes of it, once for many units.
template <class Body, class = void>
struct Prepared {
  using Type = const Body&;
  TFB_HOST_DEVICE static Type Of(const Body& body) { return body; }
};
template <class Body>
struct Prepared<Body, std::void_t<decltype(std::declval<const Body&>().Prepare())>> {
  using Type = decltype(std::declval<const Body&>().Prepare());
  TFB_HOST_DEVICE static Type Of(const Body& body) { return body.Prepare(); }
};

// How many blocks of a body a multiprocessor must have room for: Body::kResidentBlocks, which bounds its registers; 0:
// no matter.
template <class Body, class = void>
struct ResidentBlocks {
  static constexpr int kValue = 0;
};
template <class Body>
struct ResidentBlocks<Body, std::void_t<decltype(Body::kResidentBlocks)>> {
  static constexpr int kValue = Body::kResidentBlocks;
};

TFB_HOST_DEVICE constexpr int64_t UnitsOfChunk(int lanes) { return kUnitsPerChunk / lanes; }

// This thread's units of [begin, end). kLanes neighbouring threads of the card have the same ones (group.h); the host
// goes through the lanes of a unit one by one.
template <int kLanes, class Run>
TFB_HOST_DEVICE void RunUnits(Lane lane, int64_t begin, int64_t end, const Run& run) {
#if defined(__CUDA_ARCH__)
  constexpr int kThreads = kLanes;
#else
  constexpr int kThreads = 1;
#endif
  for (int64_t unit = begin + lane.rank / kThreads; unit < end; unit += lane.size / kThreads) run(unit);
}

// Body: a trivially copyable object with `void operator()(const Job&, int64_t unit) const`, or with a Prepare() that
// makes one. Job: has `int64_t units`.
template <class Job, class Body, int kLanes = 1>
struct JobsKernel {
  static constexpr int kResidentBlocks = ResidentBlocks<Body>::kValue;
  static constexpr int kMost = static_cast<int>((kArgumentBytes - sizeof(Body) - 64) / (sizeof(Job) + sizeof(int64_t)));
  static_assert(kMost >= 1, "the body and one job must fit the argument of a kernel");

  Body body;
  int size = 0;
  int of_chunk;                          // Units.
  int64_t first_chunk[kMost + 1] = {0};  // Job j has the chunks [first_chunk[j], first_chunk[j + 1]).
  Job jobs[kMost];

  // all: how many units there will be, of other launches too.
  JobsKernel(const Body& b, int64_t all)
      : body(b),
        of_chunk(static_cast<int>(kLanes == 1 && all >= kManyUnits ? kUnitsPerSearch : UnitsOfChunk(kLanes))) {}

  void Add(const Job& job) {
    jobs[size] = job;
    first_chunk[size + 1] = first_chunk[size] + CeilDiv(job.units, of_chunk);
    ++size;
  }
  int64_t chunks() const { return first_chunk[size]; }

  TFB_HOST_DEVICE void operator()(Lane lane, int64_t chunk) const {
    int low = 0, high = size;  // The last job that begins at or before the chunk; empty ones begin where the next does.
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_chunk[middle] <= chunk ? low : high) = middle;
    }
    const Job& job = jobs[low];
    const int64_t begin = (chunk - first_chunk[low]) * of_chunk;
    const int64_t end = Min(begin + of_chunk, job.units);
    const typename Prepared<Body>::Type run = Prepared<Body>::Of(body);
    RunUnits<kLanes>(lane, begin, end, [&](int64_t unit) { run(job, unit); });
  }
};

// Runs body(job, unit) for every unit of every job, in any order and at the same time.
template <int kLanes = 1, class Queue, class Job, class Body>
void ForEachUnit(Queue& queue, const std::vector<Job>& jobs, const Body& body) {
  using Kernel = JobsKernel<Job, Body, kLanes>;
  int64_t all = 0;
  for (const Job& job : jobs) all += job.units;
  for (size_t next = 0; next < jobs.size();) {
    Kernel kernel(body, all);
    for (; next < jobs.size() && kernel.size < Kernel::kMost; ++next) {
      if (jobs[next].units > 0) kernel.Add(jobs[next]);
    }
    if (kernel.size > 0) queue.Run(kernel.chunks(), kernel);
  }
}

// One job without a table: body(unit) for units [0, units).
template <class Body, int kLanes>
struct UnitsKernel {
  static constexpr int64_t kChunk = UnitsOfChunk(kLanes);
  static constexpr int kResidentBlocks = ResidentBlocks<Body>::kValue;
  Body body;
  int64_t units;
  const int32_t* live;  // In the card's memory: how many of the units there are; or null: all.

  TFB_HOST_DEVICE void operator()(Lane lane, int64_t chunk) const {
    const int64_t end = live == nullptr ? units : Min(units, *live);
    RunUnits<kLanes>(lane, chunk * kChunk, Min((chunk + 1) * kChunk, end), body);
  }
};
template <int kLanes = 1, class Queue, class Body>
void ForEach(Queue& queue, int64_t units, const Body& body, const int32_t* live = nullptr) {
  using Kernel = UnitsKernel<Body, kLanes>;
  if (units > 0) queue.Run(CeilDiv(units, Kernel::kChunk), Kernel{body, units, live});
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_LAUNCH_H_
