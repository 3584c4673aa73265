#include "cc/core/hash_table/insertion.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/hash_table/argument_checks.h"
#include "cc/core/hash_table/row_copy.h"

namespace tf_booster {
namespace {

// Keys that a thread enters before it lets readers in: about 100 us.
constexpr uint32_t kKeysPerVisit = 2048;
// New keys whose source is fetched ahead: where they are one in ten, hardware does not foresee the next one's.
constexpr int64_t kSourceAhead = 12;

}  // namespace

Insertion::Insertion(const TableOptions& options, TableState* state, MemoryProbe* memory, std::vector<NewKey> keys)
    : options_(options), state_(state), memory_(memory), keys_(std::move(keys)), new_rows_(state->fields.size(), 0) {}

Insertion::~Insertion() {
  for (int s = 0; s < kStripes; ++s) state_->index.DropGrowth(s);
}

Status Insertion::Prepare(bool distinct, ParallelFor& pf) {
  PartitionByStripe();
  TFB_RETURN_IF_ERROR(Deduplicate(distinct, pf));
  TFB_RETURN_IF_ERROR(CheckLimits());
  TFB_RETURN_IF_ERROR(TakeMemory(pf));
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (IsFirst(i) && keys_[i].state == kEmpty) keys_[i].state = state_->rows.Take();
  }
  return Status();
}

void Insertion::PartitionByStripe() {
  std::array<uint32_t, kStripes> next{};
  for (const NewKey& key : keys_) ++stripe_begin_[StripeOf(key.hash) + 1];
  std::partial_sum(stripe_begin_.begin(), stripe_begin_.end(), stripe_begin_.begin());
  std::copy(stripe_begin_.begin(), stripe_begin_.end() - 1, next.begin());
  by_stripe_.resize(keys_.size());
  for (uint32_t i = 0; i < keys_.size(); ++i) by_stripe_[next[StripeOf(keys_[i].hash)]++] = i;
}

// Each stripe's keys meet in a scratch hash set of places, at most half full.
Status Insertion::Deduplicate(bool distinct, ParallelFor& pf) {
  constexpr uint32_t kFree = 0xFFFFFFFFu;
  std::array<int64_t, kStripes + 1> set_begin{};
  for (int s = 0; s < kStripes; ++s) {
    int64_t size = 2;
    while (size < 2 * int64_t{stripe_begin_[s + 1] - stripe_begin_[s]}) size *= 2;
    set_begin[s + 1] = set_begin[s] + size;
  }
  std::vector<uint32_t> sets(set_begin[kStripes], kFree);
  std::atomic<int64_t> duplicate{-1};

  pf.Run(kStripes, static_cast<int64_t>(keys_.size()), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      uint32_t* set = sets.data() + set_begin[s];
      const uint64_t mask = set_begin[s + 1] - set_begin[s] - 1;
      int64_t entries = 0;  // Counted here, for other threads count in the same cache line.
      for (uint32_t p = stripe_begin_[s]; p < stripe_begin_[s + 1]; ++p) {
        NewKey& key = keys_[by_stripe_[p]];
        uint64_t place = key.hash & mask;
        while (set[place] != kFree && (keys_[set[place]].key != key.key || keys_[set[place]].field != key.field)) {
          place = (place + 1) & mask;
        }
        if (set[place] == kFree) {
          set[place] = by_stripe_[p];
          entries += key.before == kEmpty;
        } else {
          duplicate.store(by_stripe_[p], std::memory_order_relaxed);
        }
        key.original = set[place];
      }
      new_entries_[s] = entries;
    }
  });
  if (!distinct || duplicate < 0) return Status();
  return OccursTwice(options_, keys_[duplicate].key);
}

Status Insertion::CheckLimits() {
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (IsFirst(i) && keys_[i].state == kEmpty) ++new_rows_[keys_[i].field];
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

Status Insertion::TakeMemory(ParallelFor& pf) {
  StripedIndex& index = state_->index;
  int64_t bytes = state_->rows.CommitBytes(num_new_rows_);
  int64_t index_bytes = 0;
  for (int s = 0; s < kStripes; ++s) index_bytes += index.GrowthBytes(s, new_entries_[s]);
  bytes += index_bytes;
  const int64_t share = (state_->num_rows() + num_new_rows_) / state_->num_fields;
  for (size_t f = 0; f < new_rows_.size(); ++f) {
    if (new_rows_[f] == 0) continue;
    FieldState& field = state_->fields[f];
    bytes += field.queue.GrowthBytes(field.rows + new_rows_[f], share);
  }
  int64_t left = -1;
  if (bytes > 0 && !memory_->Grant(bytes, &left)) return Exhausted(bytes, left);

  for (size_t f = 0; f < new_rows_.size(); ++f) {
    if (new_rows_[f] != 0) state_->fields[f].queue.Reserve(state_->fields[f].rows + new_rows_[f], share);
  }
  int64_t sightings = 0, max_step = 0;
  for (const NewKey& key : keys_) {
    sightings += std::min<int64_t>(key.frequency, CountPool::kPooled);
    max_step = std::max(max_step, key.last_step);
  }
  state_->rows.ReserveCounts(num_new_rows_, sightings, max_step);
  if (!state_->rows.Reserve(num_new_rows_)) return Exhausted(bytes, -1);
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

template <int64_t kDim>
void Insertion::FillSomeRows(const RowSource* sources, int64_t per_id, int64_t begin, int64_t end) {
  const RowLayout& layout = state_->rows.layout();
  const int64_t dim = kDim > 0 ? kDim : layout.dim;
  const auto fill = [&](float* to, const float* from, float otherwise) {
    if (from != nullptr) {
      CopyRow<kDim>(to, from, dim);
    } else {
      std::fill_n(to, dim, otherwise);
    }
  };
  for (int64_t i = begin; i < end; ++i) {
    if (i + kSourceAhead < end) {
      const NewKey& later = keys_[i + kSourceAhead];
      const float* values = sources[per_id * later.field].values;
      if (values != nullptr) PrefetchRow(values + later.position * dim, dim);
    }
    const NewKey& key = keys_[i];
    if (!IsFirst(static_cast<uint32_t>(i)) || !IsRow(key.state)) continue;
    const auto& [values, slots] = sources[per_id * key.field];
    // Here, where rows come one after another: stripe by stripe, each meta is a cache miss.
    state_->rows.SetCounts({key.frequency, key.last_step}, state_->rows.Meta(key.state));
    float* row = state_->rows.Values(key.state);
    if (values != nullptr) {
      CopyRow<kDim>(row, values + key.position * dim, dim);
    } else {
      InitialRow(state_->fields[key.field].initializer, key.key, dim, row);
    }
    for (int64_t s = 0; s < layout.slots; ++s) {
      const float* slot = slots == nullptr || slots->empty() ? nullptr : (*slots)[s];
      fill(row + (1 + s) * dim, slot == nullptr ? nullptr : slot + key.position * dim, options_.slot_initial_values[s]);
    }
  }
}

void Insertion::FillRows(const RowSource* sources, int64_t per_id, ParallelFor& pf) {
  const RowLayout& layout = state_->rows.layout();
  pf.Run(static_cast<int64_t>(keys_.size()), 50 + 5 * layout.values(), [&](int64_t begin, int64_t end) {
    DispatchDim(layout.dim, [&](auto dim) { FillSomeRows<dim.value>(sources, per_id, begin, end); });
  });
}

void Insertion::Publish(RoomLock* room, ParallelFor& pf) {
  pf.Run(kStripes, static_cast<int64_t>(keys_.size()) * 4, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) PublishStripe(static_cast<int>(s), room);
  });
  AskForNextPages();
  {
    RoomGuard guard(*room, RoomLock::kWriting);
    state_->readable_end = state_->rows.end();
  }
  for (size_t f = 0; f < new_rows_.size(); ++f) state_->fields[f].rows += new_rows_[f];
  const auto& fields = state_->fields;
  if (std::none_of(fields.begin(), fields.end(), [](const FieldState& field) { return field.queue.enabled(); })) return;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const NewKey& key = keys_[i];
    if (IsFirst(i) && IsRow(key.state)) state_->fields[key.field].queue.Push(key.key, {key.frequency, key.last_step});
  }
}

void Insertion::AskForNextPages() {
  const auto granted = [&](int64_t bytes) {
    int64_t left = 0;
    return memory_->Grant(bytes, &left);
  };
  try {
    state_->rows.CommitAhead(int64_t{state_->rows.end()} - state_->readable_end, granted);
  } catch (const std::bad_alloc&) {  // From reading how much is left; the batch is in the table all the same.
  }
}

void Insertion::PublishStripe(int s, RoomLock* room) {
  constexpr uint32_t kAhead = 24;
  const uint32_t end = stripe_begin_[s + 1];
  // Keys of a field come mostly one after another; the other stripes' threads count in the same places.
  uint32_t counted = 0;
  int64_t pending = 0;
  const auto count = [&](uint32_t field, int64_t more) {
    if (field != counted) {
      state_->fields[counted].pending += pending;
      pending = 0;
      counted = field;
    }
    pending += more;
  };
  for (uint32_t visit = stripe_begin_[s]; visit < end; visit += kKeysPerVisit) {
    RoomGuard guard(*room, RoomLock::kWriting);
    state_->index.CommitGrowth(s);
    for (uint32_t p = visit; p < std::min(end, visit + kKeysPerVisit); ++p) {
      if (p + kAhead < end) state_->index.PrefetchToInsert(keys_[by_stripe_[p + kAhead]].hash);
      const NewKey& key = keys_[by_stripe_[p]];
      if (!IsFirst(by_stripe_[p])) continue;
      const int more = IsPending(key.state) - IsPending(key.before);
      if (more != 0) count(key.field, more);
      if (key.before == kEmpty) {
        state_->index.Insert(key.hash, key.key, key.field, key.state);
      } else {
        state_->index.Find(key.hash, key.key, key.field)->state = key.state;
      }
    }
  }
  if (pending != 0) state_->fields[counted].pending += pending;
}

}  // namespace tf_booster
