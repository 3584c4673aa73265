// Distinct values on the card, by hashing: order-free unique without a sort. How many there are stays on the card.
//
// A set of words, at most half full, keeps for each value 1 + the first place where it stands: a compare-and-swap takes
// an empty word, an atomic minimum lowers the place. Numbers are the ranks of first places, so values come in the order
// of first sight whatever the scheduling, as on one thread of the host.
//
// Frequent values are seen early, so their numbers are low. The first 4,096 are counted in 16 copies, by place: of a
// million ids by a power law a tenth are one id, and additions to one word queue (0.12 ms on an H100, of 0.21 in all;
// 0.03 of 0.13 now). Values and fields of several jobs are copied into arrays of their own; both in one, a load for
// two, took 0.01 longer.
#ifndef TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_BODY_H_
#define TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_BODY_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "cc/core/gpu/atomics.h"
#include "cc/core/gpu/device_primitives.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/scratch.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/table_layout.h"
#include "cc/core/unique/unique_gpu.h"

namespace tf_booster {
namespace gpu {

// The values of all jobs, and what is found out about them.
template <class T>
struct UniqueArrays : UniqueValues<T> {
  int64_t size = 0;
  int32_t* slot_of = nullptr;  // Where in the set a place's value is; -1: it is none.
  int32_t* numbers = nullptr;  // How many first places there are up to a place: at the last one, how many are distinct.
  int32_t* set = nullptr;
  int64_t set_mask = 0;
  int64_t early = 0;                 // How many numbers are early,
  uint64_t* early_counts = nullptr;  // and counted here: [kCopies, early].
};
inline constexpr int64_t kMostEarly = 4096;
inline constexpr int64_t kCopies = 16;
// Warps that run at the same time are in different copies.
inline constexpr int64_t kPlacesOfCopy = 32;

template <class T>
struct CopyValues {
  T* values;
  uint32_t* fields;
  template <class Job>
  TFB_HOST_DEVICE void operator()(const Job& job, int64_t i) const {
    values[job.first + i] = job.values[i];
    fields[job.first + i] = job.FieldOf(i);
  }
};

// Unit: a place.
template <class T>
struct EnterValue {
  UniqueArrays<T> all;
  TFB_HOST_DEVICE void operator()(int64_t i) const {
    const T value = all.values[i];
    const uint32_t field = all.FieldOf(i);
    if (field == kNoField) {
      all.slot_of[i] = -1;
      return;
    }
    const int32_t mine = static_cast<int32_t>(i + 1);
    int64_t slot = static_cast<int64_t>(HashKey(static_cast<int64_t>(value), field)) & all.set_mask;
    for (;; slot = (slot + 1) & all.set_mask) {
      // Most places find a word that is taken, by their own value or another: a load tells that cheaper than an atomic
      // operation, and what looks empty the atomic one decides. Words are taken once and only fall from then on.
      int32_t found = LoadRelaxed(&all.set[slot]);
      if (found == 0) found = AtomicCompareExchange(&all.set[slot], 0, mine);
      if (found == 0) break;
      // Whoever is found, it is a place of the slot's value: that never changes.
      const T other = all.values[found - 1];
      const uint32_t other_field = all.FieldOf(found - 1);  // Both are under way before either is looked at.
      if (other == value && other_field == field) {
        if (mine < found) AtomicMin(&all.set[slot], mine);
        break;
      }
    }
    all.slot_of[i] = static_cast<int32_t>(slot);
  }
};

template <class T>
struct WriteDistinct {
  UniqueArrays<T> all;
  UniqueOutputs<T> out;
  int64_t first_idx;

  template <class Job>
  TFB_HOST_DEVICE void operator()(const Job& job, int64_t i) const {
    const int64_t place = job.first + i;
    // The tail of the outputs is as long as there are places that are not first; each place clears one of it.
    const int64_t distinct = all.numbers[all.size - 1];
    if (place >= distinct && out.fields != nullptr) out.fields[place] = kNoField;
    using Number = std::remove_pointer_t<decltype(job.idx)>;
    if (all.slot_of[place] < 0) {
      if (job.skip_missing && job.idx != nullptr) job.idx[i] = Number(-1);
      return;
    }
    const int64_t first = all.set[all.slot_of[place]] - 1;
    const int64_t number = all.numbers[first] - 1;
    if (job.idx != nullptr) job.idx[i] = static_cast<Number>(first_idx + number);
    if (out.counts != nullptr && number < all.early) {
      CountAt(all.early_counts + place / kPlacesOfCopy % kCopies * all.early, number, 1);
    } else if (out.counts != nullptr) {
      AtomicAdd(reinterpret_cast<uint64_t*>(out.counts + number), uint64_t{1});
    }
    if (first != place) return;
    if (out.values != nullptr) out.values[number] = all.values[place];
    if (out.fields != nullptr) out.fields[number] = all.FieldOf(place);
  }
};

// Unit: an early number.
struct AddCopies {
  const uint64_t* copies;
  int64_t early;
  int64_t* counts;
  TFB_HOST_DEVICE void operator()(int64_t number) const {
    uint64_t sum = 0;
    for (int64_t copy = 0; copy < kCopies; ++copy) sum += copies[copy * early + number];
    counts[number] = static_cast<int64_t>(sum);
  }
};

// Unit: a distinct value.
template <class Index>
struct CopyCount {
  const int64_t* counts;
  Index* out;
  TFB_HOST_DEVICE void operator()(int64_t i) const { out[i] = static_cast<Index>(counts[i]); }
};

// Two steps, so that the host may look at the count between them and make outputs of that size.
template <class Queue, class T, class Index>
class UniqueOnQueue {
 public:
  using Job = UniqueJob<T, Index>;

  // With a Scratch of null it only measures. The sizes' sum must be below 2^30.
  UniqueOnQueue(std::vector<Job> jobs, Scratch* scratch) : jobs_(std::move(jobs)) {
    for (Job& job : jobs_) {
      job.first = all_.size;
      all_.size += job.units;
    }
    int64_t words = 16;
    while (words < 2 * all_.size) words *= 2;
    all_.set_mask = words - 1;
    if (jobs_.size() == 1) {
      static_cast<UniqueValues<T>&>(all_) = jobs_[0];
    } else {
      all_.values = copies_.values = scratch->Take<T>(all_.size);
      all_.fields = copies_.fields = scratch->Take<uint32_t>(all_.size);
    }
    all_.slot_of = scratch->Take<int32_t>(all_.size);
    all_.numbers = scratch->Take<int32_t>(all_.size);
    all_.set = scratch->Take<int32_t>(words);
    all_.early = Min(all_.size, kMostEarly);
    all_.early_counts = scratch->Take<uint64_t>(kCopies * all_.early);
    sum_scratch_ = scratch->Take<char>(Queue::SumBytes(all_.size));
  }

  int64_t size() const { return all_.size; }

  void Find(Queue& queue) {
    if (all_.size == 0) return;
    queue.Zero(all_.set, (all_.set_mask + 1) * static_cast<int64_t>(sizeof(int32_t)));
    if (jobs_.size() > 1) ForEachUnit(queue, jobs_, copies_);
    ForEach(queue, all_.size, EnterValue<T>{all_});
    queue.InclusiveSum(OwnWords{all_.slot_of, all_.set}, all_.numbers, all_.size, sum_scratch_);
  }

  // Waits for the card.
  int64_t Count(Queue& queue) const {
    int32_t count = 0;
    if (all_.size > 0) queue.ToHost(all_.numbers + all_.size - 1, 1, &count);
    return count;
  }

  // idx = first_idx + the number of the value. Outputs of the batch's size; without fields and counts, of the count's.
  void Write(Queue& queue, int64_t first_idx, const UniqueOutputs<T>& out) {
    if (all_.size == 0) return;
    if (out.counts != nullptr) {
      queue.Zero(out.counts, all_.size * static_cast<int64_t>(sizeof(int64_t)));
      queue.Zero(all_.early_counts, kCopies * all_.early * static_cast<int64_t>(sizeof(uint64_t)));
    }
    ForEachUnit(queue, jobs_, WriteDistinct<T>{all_, out, first_idx});
    if (out.counts != nullptr) ForEach(queue, all_.early, AddCopies{all_.early_counts, all_.early, out.counts});
  }

 private:
  std::vector<Job> jobs_;
  UniqueArrays<T> all_;
  CopyValues<T> copies_ = {};
  char* sum_scratch_ = nullptr;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_UNIQUE_UNIQUE_BODY_H_
