#include "cc/core/hash_table/insertion.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/hash_table/initial_row.h"
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

template <int64_t kDim>
void Insertion::FillSomeRows(const RowSource& source, int64_t begin, int64_t end) {
  const auto& [values, slots] = source;
  const RowLayout& layout = state_->rows.layout();
  const int64_t dim = kDim > 0 ? kDim : layout.dim;
  const auto fill = [&](float* to, const float* from, float otherwise) {
    if (from != nullptr) {
      CopyRow<kDim>(to, from, dim);
    } else {
      std::fill_n(to, dim, otherwise);
    }
  };
  InitialRows initial_rows(dim);
  for (int64_t i = begin; i < end; ++i) {
    if (i + kSourceAhead < end && values != nullptr) {
      PrefetchRow(values + keys_[i + kSourceAhead].position * dim, dim);
    }
    const uint32_t number = states_[i];
    if (!IsFirst(static_cast<uint32_t>(i)) || !IsRow(number)) continue;
    const NewKey& key = keys_[i];
    // Here, where rows come one after another: stripe by stripe, each meta is a cache miss.
    state_->rows.SetCounts({key.frequency, key.last_step}, state_->rows.Meta(number));
    float* row = state_->rows.Values(number);
    if (values != nullptr) {
      CopyRow<kDim>(row, values + key.position * dim, dim);
    } else {
      initial_rows.Add(state_->fields[key.field].initializer, key.key, row);
    }
    for (int64_t s = 0; s < layout.slots; ++s) {
      const float* slot = slots == nullptr || slots->empty() ? nullptr : (*slots)[s];
      fill(row + (1 + s) * dim, slot == nullptr ? nullptr : slot + key.position * dim, options_.slot_initial_values[s]);
    }
  }
}

void Insertion::FillRows(const RowSource& source, ParallelFor& pf) {
  const RowLayout& layout = state_->rows.layout();
  pf.Run(static_cast<int64_t>(keys_.size()), 50 + 5 * layout.values(), [&](int64_t begin, int64_t end) {
    DispatchDim(layout.dim, [&](auto dim) { FillSomeRows<dim.value>(source, begin, end); });
  });
}

void Insertion::Publish(RoomLock* room, ParallelFor& pf) {
  pf.Run(kStripes, static_cast<int64_t>(keys_.size()) * 4, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) PublishStripe(static_cast<int>(s), room);
  });
  AskForNextPages(state_, int64_t{state_->rows.end()} - state_->readable_end, memory_);
  {
    RoomGuard guard(*room, RoomLock::kWriting);
    state_->readable_end = state_->rows.end();
  }
  for (size_t f = 0; f < new_rows_.size(); ++f) state_->fields[f].rows += new_rows_[f];
  const auto& fields = state_->fields;
  if (std::none_of(fields.begin(), fields.end(), [](const FieldState& field) { return field.queue.enabled(); })) return;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const NewKey& key = keys_[i];
    if (IsFirst(i) && IsRow(states_[i])) state_->fields[key.field].queue.Push(key.key, {key.frequency, key.last_step});
  }
}

void AskForNextPages(TableState* state, int64_t rows_beyond, MemoryProbe* memory) {
  const auto granted = [&](int64_t bytes) {
    int64_t left = 0;
    return memory->Grant(bytes, &left);
  };
  try {
    state->rows.CommitAhead(rows_beyond, granted);
  } catch (const std::bad_alloc&) {  // From reading how much is left; the batch is in the table all the same.
  }
}

void Insertion::PublishStripe(int s, RoomLock* room) {
  constexpr uint32_t kAhead = 24;
  const uint32_t end = stripe_end_[s];
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
      if (p + kAhead < end) state_->index.PrefetchToInsert(by_stripe_[p + kAhead].hash);
      const StripeKey& key = by_stripe_[p];
      const uint32_t state = states_[key.place];
      const int more = IsPending(state) - IsPending(key.before);
      if (more != 0) count(key.field, more);
      if (key.before == kEmpty) {
        state_->index.Insert(key.hash, key.key, key.field, state);
      } else {
        state_->index.Find(key.hash, key.key, key.field)->state = state;
      }
    }
  }
  if (pending != 0) state_->fields[counted].pending += pending;
}

}  // namespace tf_booster
