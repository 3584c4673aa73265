// Insertion::Prepare: everything that can fail.
#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/hash_table/argument_checks.h"
#include "cc/core/hash_table/insertion.h"

namespace tf_booster {

Status Insertion::Prepare(Repeats repeats, ParallelFor& pf) {
  PartitionByStripe(pf);
  int64_t refused = Deduplicate(pf);
  if (repeats == Repeats::kAllowed) refused = -1;
  if (repeats == Repeats::kRefusedInTable && refused < 0) refused = AnyInTable(pf);
  if (refused >= 0) return OccursTwice(options_, keys_[refused].key);
  TFB_RETURN_IF_ERROR(CheckLimits());
  TFB_RETURN_IF_ERROR(TakeMemory(pf));
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (IsFirst(i) && states_[i] == kEmpty) states_[i] = state_->rows.Take();
  }
  return Status();
}

void Insertion::PartitionByStripe(ParallelFor& pf) {
  constexpr int64_t kPart = 2048;
  struct Part {
    std::array<uint32_t, kStripes> next{};  // First their numbers, then where in by_stripe_ the next one goes.
    int64_t sightings = 0, max_step = 0;
  };
  const int64_t size = static_cast<int64_t>(keys_.size()), num_parts = (size + kPart - 1) / kPart;
  std::vector<Part> parts(num_parts);
  originals_.reset(new uint32_t[size]);
  states_.reset(new uint32_t[size]);
  by_stripe_.reset(new StripeKey[size]);
  pf.Run(num_parts, 2 * kPart, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      Part part;
      for (int64_t i = p * kPart; i < std::min(size, (p + 1) * kPart); ++i) {
        const NewKey& key = keys_[i];
        ++part.next[StripeOf(HashKey(key.key, key.field))];
        part.sightings += std::min<int64_t>(key.frequency, CountPool::kPooled);
        part.max_step = std::max(part.max_step, key.last_step);
        states_[i] = key.state;
        originals_[i] = static_cast<uint32_t>(i);
      }
      parts[p] = part;
    }
  });
  uint32_t total = 0;
  for (int s = 0; s < kStripes; ++s) {
    stripe_begin_[s] = total;
    for (Part& part : parts) total += std::exchange(part.next[s], total);
  }
  stripe_begin_[kStripes] = total;
  for (const Part& part : parts) {
    sightings_ += part.sightings;
    max_step_ = std::max(max_step_, part.max_step);
  }
  pf.Run(num_parts, 3 * kPart, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      std::array<uint32_t, kStripes> next = parts[p].next;
      for (int64_t i = p * kPart; i < std::min(size, (p + 1) * kPart); ++i) {
        const NewKey& key = keys_[i];
        const uint64_t hash = HashKey(key.key, key.field);
        by_stripe_[next[StripeOf(hash)]++] = {hash, key.key, key.field, key.before, static_cast<uint32_t>(i)};
      }
    }
  });
}

// Each stripe's keys meet in a scratch hash set of places in by_stripe_, at most half full.
int64_t Insertion::Deduplicate(ParallelFor& pf) {
  constexpr uint32_t kFree = 0xFFFFFFFFu;
  std::array<int64_t, kStripes + 1> set_begin{};
  for (int s = 0; s < kStripes; ++s) {
    int64_t size = 2;
    while (size < 2 * int64_t{stripe_begin_[s + 1] - stripe_begin_[s]}) size *= 2;
    set_begin[s + 1] = set_begin[s] + size;
  }
  const std::unique_ptr<uint32_t[]> sets(new uint32_t[set_begin[kStripes]]);
  std::atomic<int64_t> duplicate{-1};

  pf.Run(kStripes, static_cast<int64_t>(keys_.size()), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      uint32_t* set = sets.get() + set_begin[s];
      std::fill(set, sets.get() + set_begin[s + 1], kFree);
      const uint64_t mask = set_begin[s + 1] - set_begin[s] - 1;
      int64_t entries = 0;  // Counted here, for other threads count in the same cache line.
      uint32_t firsts = stripe_begin_[s];
      for (uint32_t p = stripe_begin_[s]; p < stripe_begin_[s + 1]; ++p) {
        const StripeKey key = by_stripe_[p];
        uint64_t place = key.hash & mask;
        while (set[place] != kFree &&
               (by_stripe_[set[place]].key != key.key || by_stripe_[set[place]].field != key.field)) {
          place = (place + 1) & mask;
        }
        if (set[place] == kFree) {
          set[place] = firsts;
          by_stripe_[firsts++] = key;
          entries += key.before == kEmpty;
        } else {
          duplicate.store(key.place, std::memory_order_relaxed);
          // Of duplicates only, for other stripes' keys are in the same line: when both threads of two wrote those of
          // all keys there, they took 250 us where one takes 98.
          originals_[key.place] = by_stripe_[set[place]].place;
        }
      }
      stripe_end_[s] = firsts;
      new_entries_[s] = entries;
    }
  });
  return duplicate;
}

int64_t Insertion::AnyInTable(ParallelFor& pf) const {
  constexpr uint32_t kAhead = 24;
  std::atomic<int64_t> found{-1};
  pf.Run(kStripes, static_cast<int64_t>(keys_.size()), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      for (uint32_t p = stripe_begin_[s]; p < stripe_end_[s]; ++p) {
        if (p + kAhead < stripe_end_[s]) state_->index.PrefetchToInsert(by_stripe_[p + kAhead].hash);
        const StripeKey& key = by_stripe_[p];
        if (state_->index.Find(key.hash, key.key, key.field) != nullptr) found = key.place;
      }
    }
  });
  return found;
}

Status Insertion::CheckLimits() {
  const bool one_field = new_rows_.size() == 1;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (IsFirst(i) && states_[i] == kEmpty) ++new_rows_[one_field ? 0 : keys_[i].field];
  }
  num_new_rows_ = std::accumulate(new_rows_.begin(), new_rows_.end(), int64_t{0});
  for (size_t f = 0; f < new_rows_.size(); ++f) {
    const FieldOptions& field = *state_->fields[f].options;
    const int64_t rows = state_->fields[f].rows;
    if (field.max_rows == 0 || new_rows_[f] == 0 || rows + new_rows_[f] <= field.max_rows) continue;
    return LimitReached(options_, field, rows, new_rows_[f]);
  }
  return Status();
}

Status Insertion::Exhausted(int64_t wanted, int64_t left) const {
  std::string what = "Table '" + options_.name + "': it has " + std::to_string(state_->num_rows()) +
                     " rows and the batch brings " + std::to_string(num_new_rows_) + " new ones, which need " +
                     std::to_string(wanted) + " bytes";
  what += left >= 0 ? ", but only " + std::to_string(left) + " bytes are left on this machine or in its cgroup"
                    : ", and the system refused them";
  return Status(StatusCode::kResourceExhausted,
                what + "; limit the table by max_rows or an eviction policy, or give the process more memory");
}

Status Insertion::DiskIsFull() const {
  return Status(StatusCode::kResourceExhausted,
                "Table '" + options_.name + "': it has " + std::to_string(state_->num_rows()) + " rows, " +
                    std::to_string(state_->rows.disk_bytes()) + " bytes of them on the disk, and folder '" +
                    state_->rows.disk().folder + "' has no room for the " + std::to_string(num_new_rows_) +
                    " new ones of the batch; limit the table by max_rows or an eviction policy, or give it a larger "
                    "disk");
}

Status Insertion::TakeMemory(ParallelFor& pf) {
  StripedIndex& index = state_->index;
  int64_t index_bytes = 0;
  for (int s = 0; s < kStripes; ++s) index_bytes += index.GrowthBytes(s, new_entries_[s]);
  int64_t beside = index_bytes;
  const int64_t share = (state_->num_rows() + num_new_rows_) / state_->num_fields;
  for (size_t f = 0; f < new_rows_.size(); ++f) {
    if (new_rows_[f] == 0) continue;
    FieldState& field = state_->fields[f];
    beside += field.queue.GrowthBytes(field.rows + new_rows_[f], share);
  }
  int64_t left = -1;
  const bool granted = state_->rows.Grant(num_new_rows_, beside, memory_, &left);
  const int64_t bytes = state_->rows.CommitBytes(num_new_rows_) + beside;
  if (!granted) return Exhausted(bytes, left);

  for (size_t f = 0; f < new_rows_.size(); ++f) {
    if (new_rows_[f] != 0) state_->fields[f].queue.Reserve(state_->fields[f].rows + new_rows_[f], share);
  }
  state_->rows.ReserveCounts(num_new_rows_, sightings_, max_step_);
  if (!state_->rows.Reserve(num_new_rows_)) return state_->rows.uses_disk() ? DiskIsFull() : Exhausted(bytes, -1);
  std::atomic<bool> ok{true};
  if (index_bytes > 0) {
    // About 1 ns a byte: one cache miss for each entry that moves.
    pf.Run(kStripes, index_bytes / kStripes, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        if (!index.PrepareGrowth(static_cast<int>(s), new_entries_[s])) ok = false;
      }
    });
  }
  return ok ? Status() : Exhausted(bytes, -1);
}

}  // namespace tf_booster
