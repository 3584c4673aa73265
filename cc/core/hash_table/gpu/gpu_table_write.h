// Of gpu_table_impl.h: inserts, growth, assigning, erasing.
//
// Whether to grow is decided by upper bounds that the host keeps: a batch of n keys may take n entries and n rows.
// Before a bound is reached the card is asked for its counters, which come in while other things are done, and lower
// the bounds. Only where that does not suffice for an index are they read, which waits for the card; slabs are added by
// the bounds.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_WRITE_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_WRITE_H_

#include "cc/core/hash_table/gpu/gpu_table_disk.h"
#include "cc/core/hash_table/gpu/gpu_table_impl.h"
#include "cc/core/hash_table/gpu/update_bodies.h"

namespace tf_booster {
namespace gpu {

template <class Queue>
void GpuTableOn<Queue>::TakeInsertArrays(const State& state, int64_t n, Scratch* scratch, InsertArrays* arrays) const {
  arrays->places = arrays->rows = scratch->Take<uint32_t>(n);
  arrays->entries = scratch->Take<uint64_t>(n);
  arrays->owners = scratch->Take<uint32_t>(n);
  arrays->gets_row = scratch->Take<int32_t>(n);
  arrays->ranks = scratch->Take<int32_t>(n);
  arrays->new_places = scratch->Take<uint32_t>(n);
  arrays->before = scratch->Take<uint32_t>(n);
  arrays->listed = scratch->Take<uint64_t>(state.may_have_pending ? n : 0);
  arrays->listed_states = scratch->Take<uint32_t>(state.may_have_pending ? n : 0);
}

// Enters all live entries of `old_view`, at most `live` of them, into an index of `block`, which becomes the table's.
template <class Queue>
void GpuTableOn<Queue>::Refill(State* state, DeviceIndex old_view, DeviceBlock block, int64_t buckets, int64_t live) {
  state->view.index = State::EmptyIndex(queue_, block, buckets);
  ForEach(queue_, 1, ExchangeUsed{state->view.counters, false});
  ForEach(queue_, old_view.capacity(), Rehash{old_view, state->view.index, state->view.rows, state->view.counters});
  state->index = std::move(block);
  state->used_bound = live;
}

template <class Queue>
Status GpuTableOn<Queue>::TakeIndex(int64_t buckets, DeviceBlock* block) const {
  const int64_t bytes = buckets * kBucket * static_cast<int64_t>(sizeof(DeviceEntry));
  if (buckets * kBucket > kMostEntries) return Exhausted(bytes, -1, "an index of more than 2^32 entries");
  TFB_RETURN_IF_ERROR(Grant(bytes, "the entries of a larger index"));
  *block = DeviceBlock(config_.allocator, bytes);
  return block->ok() ? Status() : Exhausted(bytes, -1, "the entries of a larger index");
}

template <class Queue>
int64_t GpuTableOn<Queue>::LatestStep(const State& state) {
  int64_t step = 0;
  for (const GpuFieldState& field : state.fields) step = std::max(step, field.step);
  return step;
}

template <class Queue>
Status GpuTableOn<Queue>::EnsureCounts(State* state, int64_t sightings, int64_t step) {
  if (state->view.rows.wide) return Status();
  if (step <= kMostNarrow && sightings > kMostNarrow - state->frequency_bound) {
    // Once in four billion keys: the bound grows as if one row were all of them.
    const int64_t end = static_cast<int64_t>(state->ReadCounts(queue_).counters.end);
    queue_.Zero(&state->view.counters->frequency, sizeof(uint64_t));
    ForEach(queue_, end - kFirstRow, FindMostFrequent{state->view});
    state->frequency_bound =
        std::max(state->min_frequency_bound, static_cast<int64_t>(state->ReadCounts(queue_).counters.frequency));
    TFB_RETURN_IF_ERROR(Done());
  }
  if (step <= kMostNarrow && sightings <= kMostNarrow - state->frequency_bound) {
    state->frequency_bound += sightings;
    return Status();
  }
  const int64_t bytes = state->WideBytes();
  TFB_RETURN_IF_ERROR(Grant(bytes, "counts beyond 32 bits"));
  return state->Widen(queue_) ? Status() : Exhausted(bytes, -1, "counts beyond 32 bits");
}

template <class Queue>
Status GpuTableOn<Queue>::Rebuild(State* state, int64_t live, int64_t more, Insertion* insertion) {
  const int64_t buckets = BucketsFor(live + more);
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeIndex(buckets, &block));
  insertion->old_view = state->view.index;
  insertion->old_used_bound = state->used_bound;
  insertion->grown = true;
  DeviceBlock old = std::move(state->index);
  Refill(state, insertion->old_view, std::move(block), buckets, live);
  insertion->old_index = std::move(old);
  return Status();
}

template <class Queue>
Status GpuTableOn<Queue>::GrowIndex(State* state, int64_t more, Insertion* insertion) {
  const int64_t most = MaxUsed(state->view.index.capacity());
  if (state->used_bound + more <= most) return Status();
  int64_t live = 0;
  if (state->view.index.entries != nullptr) {
    // What fills it is where keys were, if the bounds are fresh: the same room again, and nobody needs to be asked.
    const bool same_room = BucketsFor(state->live_bound + more) * kBucket <= state->view.index.capacity();
    if (same_room && !state->may_have_pending && state->HeardLately(more)) {
      return Rebuild(state, state->live_bound, more, insertion);
    }
    const GpuTableCounts counts = state->ReadCounts(queue_);
    TFB_RETURN_IF_ERROR(Done());
    state->used_bound = static_cast<int64_t>(counts.counters.used);
    if (state->used_bound + more <= most) return Status();
    live = counts.all_rows() + counts.all_pending();
  }
  return Rebuild(state, live, more, insertion);
}

template <class Queue>
Status GpuTableOn<Queue>::JudgeBatch(State* state, const DeviceKeys& keys) {
  const GpuTableCounts counts = state->ReadCounts(queue_);
  TFB_RETURN_IF_ERROR(Done());
  if (counts.counters.duplicate != 0) {
    int64_t key = 0;
    queue_.ToHost(keys.keys + counts.counters.duplicate - 1, 1, &key);
    return OccursTwice(options_, key);
  }
  int64_t new_rows = 0;
  for (uint32_t id = 0; id < state->num_ids; ++id) {
    const FieldOptions& field = *state->fields[id].options;
    const int64_t rows = counts.rows[id], more = counts.batch_rows[id];
    if (field.max_rows > 0 && more > 0 && rows + more > field.max_rows) {
      return LimitReached(options_, field, rows, more);
    }
    new_rows += more;
  }
  const int64_t reused = std::min(new_rows, static_cast<int64_t>(counts.counters.free));
  const int64_t end = static_cast<int64_t>(counts.counters.end) + new_rows - reused;
  state->end_bound = end;
  state->live_bound = counts.all_rows() + new_rows;
  if (end > int64_t{kMaxRow} + 1) return Exhausted(end, -1, "more than 2^31 rows");
  const int64_t bytes = state->SlabBytes(end);
  TFB_RETURN_IF_ERROR(Grant(bytes, "new rows"));
  return state->AddSlabs(queue_, end) ? Done() : Exhausted(bytes, -1, "new rows");
}

// Slabs without a wait, for a batch of n keys and those that come before the card is heard again, if that takes as long
// as the last time. By the bounds, which are at most as much too high: a card that is one step behind leaves room for
// two batches unused. Whether the batch fits now; if not, its true size must be read.
template <class Queue>
bool GpuTableOn<Queue>::GrowByBounds(State* state, int64_t n) {
  const int64_t more = std::max(n, state->keys_since());
  const int64_t end = state->EndAfter(more);
  if (state->HeardLately(n) && end > state->row_end() && more <= state->live_bound / 32 &&
      end <= int64_t{kMaxRow} + 1 && Grant(state->SlabBytes(end), "rows ahead").ok()) {
    state->AddSlabs(queue_, end);
  }
  return state->EndAfter(n) <= state->row_end();
}

// After the true size of a batch of n keys was read: room for two more by their bounds, until the card is heard.
template <class Queue>
void GpuTableOn<Queue>::MakeRoomAhead(State* state, int64_t n) {
  const int64_t end = state->end_bound + 2 * n;
  if (n > state->live_bound / 32 || end > int64_t{kMaxRow} + 1) return;
  const int64_t bytes = state->SlabBytes(end);
  if (Grant(bytes, "rows ahead").ok()) state->AddSlabs(queue_, end);
}

// The table as it was before the batch.
template <class Queue>
void GpuTableOn<Queue>::TakeBack(State* state, const InsertBody& body, Insertion* insertion) {
  if (!insertion->grown) return ForEach(queue_, body.keys.size, Unclaim(body));
  state->index = std::move(insertion->old_index);
  state->view.index = insertion->old_view;
  state->used_bound = insertion->old_used_bound;
  ForEach(queue_, insertion->old_view.capacity(), Relink{insertion->old_view, state->view.rows});
  ForEach(queue_, 1, ExchangeUsed{state->view.counters, true});
}

template <class Queue>
Status GpuTableOn<Queue>::Insert(State* state, const DeviceKeys& keys, const DeviceHandles& handles,
                                 const InsertRule& rule, const DeviceRowSource& source, bool wait,
                                 Insertion* insertion) {
  const int64_t n = keys.size;
  if (n == 0) return Status();
  Scratch measure(nullptr);
  TakeInsertArrays(*state, n, &measure, &insertion->arrays);
  const int64_t sum_bytes = Queue::SumBytes(n);
  measure.Take<char>(sum_bytes);
  TFB_RETURN_IF_ERROR(Take(measure.used(), &insertion->block));
  Scratch memory(insertion->block.get());
  TakeInsertArrays(*state, n, &memory, &insertion->arrays);
  char* const sum_scratch = memory.Take<char>(sum_bytes);
  state->Listen();
  TFB_RETURN_IF_ERROR(GrowIndex(state, n, insertion));

  InsertArrays& arrays = insertion->arrays;
  const InsertBody body = {state->view, keys, arrays, rule};
  queue_.Zero(&state->view.counters->listed, 2 * sizeof(uint64_t));  // And `duplicate`, which follows.
  queue_.Zero(state->view.batch_rows, state->num_ids * static_cast<int64_t>(sizeof(uint64_t)));
  queue_.Zero(arrays.before, n * static_cast<int64_t>(sizeof(uint32_t)));
  ForEach(queue_, n, Claim(body, handles));
  if (state->may_have_pending) ForEach(queue_, n, WriteBefore(body));
  ForEach(queue_, n, Resolve(body));
  queue_.InclusiveSum(arrays.gets_row, arrays.ranks, n, sum_scratch);

  const int32_t* const total = arrays.ranks + n - 1;
  if (wait || state->live_bound + n > state->row_limit || !GrowByBounds(state, n)) {
    const Status verdict = JudgeBatch(state, keys);
    if (!verdict.ok()) {
      TakeBack(state, body, insertion);
      return verdict;
    }
    if (!wait) MakeRoomAhead(state, n);
  } else {
    state->end_bound = state->EndAfter(n);
    state->live_bound += n;
  }
  if (state->uses_disk()) {
    const InsertBody foreseen = {state->view, keys, arrays, rule};  // The slabs' table may be another.
    const auto foresee = [&](uint32_t* rows) { ForEach(queue_, n, ForeseeRows(foreseen, rows)); };
    const Status fetched = FetchRows(state, n, rule.may_repeat, foresee, &insertion->disk);
    if (!fetched.ok()) {
      TakeBack(state, body, insertion);
      return fetched;
    }
    arrays.places = insertion->disk.places;
  }
  state->CountKeys(n);
  const InsertBody publish = {state->view, keys, arrays, rule};  // And yet another.
  ForEach(queue_, n, Publish(publish));
  if (rule.may_repeat) ForEach(queue_, n, Spread(publish));
  ForEach<kGroupLanes>(queue_, n, FillNewRows(publish, source), total);
  ForEach(queue_, 1, CommitRows{state->view.counters, total});
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::FindOrInsert(const KeyBatch& keys, float* out, ParallelFor&) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  return Guarded([&] {
    edits_.NoteAll();
    Staged staged;
    Insertion insertion;
    for (GpuFieldState& field : state_->fields) field.over = true;  // Nobody leaves before a step.
    TFB_RETURN_IF_ERROR(EnsureCounts(state_.get(), 0, LatestStep(*state_)));
    TFB_RETURN_IF_ERROR(Stage(keys, nullptr, nullptr, &staged));
    TFB_RETURN_IF_ERROR(Insert(state_.get(), staged.keys, {}, {}, {}, true, &insertion));
    StartFind(staged.keys, KnownRows{insertion.arrays.places}, staged.values, staged.found);
    queue_.ToHost(staged.values, keys.size * options_.dim, out);
    return StoreRows(state_.get(), insertion.disk, true);
  });
}

template <class Queue>
Status GpuTableOn<Queue>::InsertOrAssign(const KeyBatch& keys, const float* values, ParallelFor&) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  return Guarded([&] {
    edits_.NoteAll();
    Staged staged;
    Insertion insertion;
    for (GpuFieldState& field : state_->fields) field.over = true;  // Nobody leaves before a step.
    TFB_RETURN_IF_ERROR(EnsureCounts(state_.get(), 0, LatestStep(*state_)));
    TFB_RETURN_IF_ERROR(Stage(keys, nullptr, nullptr, &staged));
    queue_.FromHost(values, keys.size * options_.dim, staged.values);
    DeviceBlock set;
    TFB_RETURN_IF_ERROR(Take(MarkRows::SetSize(keys.size) * static_cast<int64_t>(sizeof(uint64_t)), &set));
    TFB_RETURN_IF_ERROR(Insert(state_.get(), staged.keys, {}, {}, {staged.values, nullptr}, true, &insertion));
    const MarkRows marks = MarkIn(set.get(), {state_->view, insertion.arrays.rows, false, keys.size});
    const FloatCopy copy(options_.dim, staged.values);
    ForEach<kGroupLanes>(queue_, keys.size, AssignRows(marks, insertion.arrays.places, copy, staged.values));
    return StoreRows(state_.get(), insertion.disk, false);
  });
}

template <class Queue>
MarkRows GpuTableOn<Queue>::MarkIn(void* set, MarkRows marks) const {
  const int64_t size = MarkRows::SetSize(marks.size);
  marks.set = static_cast<uint64_t*>(set);
  marks.set_mask = static_cast<uint64_t>(size) - 1;
  queue_.Zero(set, size * static_cast<int64_t>(sizeof(uint64_t)));
  ForEach(queue_, marks.size, Mark(marks));
  return marks;
}

template <class Queue>
Status GpuTableOn<Queue>::Erase(const KeyBatch& keys, int64_t* erased, ParallelFor&) {
  TFB_RETURN_IF_ERROR(CheckFields(options_, keys));
  if (erased != nullptr) *erased = 0;
  if (keys.size == 0) return Status();
  return Guarded([&] {
    edits_.NoteAll();
    Staged staged;
    TFB_RETURN_IF_ERROR(Stage(keys, nullptr, nullptr, &staged));
    return FreeByRank(staged.keys, erased);
  });
}

template <class Queue>
Status GpuTableOn<Queue>::FreeByRank(const DeviceKeys& keys, int64_t* erased) {
  const int64_t n = keys.size, sum_bytes = Queue::SumBytes(n);
  uint32_t* rows = nullptr;
  int32_t *flags = nullptr, *ranks = nullptr;
  char* sum_scratch = nullptr;
  const auto take = [&](Scratch* scratch) {
    rows = scratch->Take<uint32_t>(n);
    flags = scratch->Take<int32_t>(n);
    ranks = scratch->Take<int32_t>(n);
    sum_scratch = scratch->Take<char>(sum_bytes);
  };
  DeviceBlock block;
  TFB_RETURN_IF_ERROR(TakeArrays(take, &block));
  DeviceBlock set;
  TFB_RETURN_IF_ERROR(Take(MarkRows::SetSize(n) * static_cast<int64_t>(sizeof(uint64_t)), &set));
  ForEach(queue_, n, FindErased{state_->view, keys, rows});
  const MarkRows marks = MarkIn(set.get(), {state_->view, rows, true, n});
  ForEach(queue_, n, FlagChosen(marks, flags));
  queue_.InclusiveSum(flags, ranks, n, sum_scratch);
  ForEach(queue_, n, FreeRows{state_->view, rows, flags, ranks});
  ForEach(queue_, 1, CommitFreed{state_->view.counters, ranks + n - 1});
  if (erased != nullptr) {
    int32_t count = 0;
    queue_.ToHost(ranks + n - 1, 1, &count);
    *erased = count;
  }
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::MakeRoom(State* state, int64_t more_rows, int64_t more_keys) {
  const GpuTableCounts counts = state->ReadCounts(queue_);
  TFB_RETURN_IF_ERROR(Done());
  const DeviceCounters& counters = counts.counters;
  const int64_t has = counts.all_rows(), live = has + counts.all_pending();
  state->used_bound = static_cast<int64_t>(counters.used);
  state->end_bound = static_cast<int64_t>(counters.end);
  state->live_bound = has;
  const int64_t end = state->end_bound + std::max<int64_t>(0, more_rows - static_cast<int64_t>(counters.free));
  const bool grows = state->used_bound + more_keys > MaxUsed(state->view.index.capacity());
  const int64_t buckets = BucketsFor(live + more_keys);
  const std::string what = std::to_string(has + more_rows) + " rows";
  if (end > int64_t{kMaxRow} + 1) return Exhausted(end, -1, "more than 2^31 rows");
  const int64_t bytes = state->SlabBytes(end);
  TFB_RETURN_IF_ERROR(Grant(bytes, what.c_str()));
  if (grows) {
    DeviceBlock block;
    TFB_RETURN_IF_ERROR(TakeIndex(buckets, &block));
    const DeviceBlock old = std::move(state->index);
    Refill(state, state->view.index, std::move(block), buckets, live);
  }
  return state->AddSlabs(queue_, end) ? Done() : Exhausted(bytes, -1, what.c_str());
}

template <class Queue>
Status GpuTableOn<Queue>::Reserve(int64_t rows, ParallelFor&) {
  return Guarded([&] {
    const int64_t more = rows - state_->ReadCounts(queue_).all_rows();
    TFB_RETURN_IF_ERROR(Done());
    return more > 0 ? MakeRoom(state_.get(), more, more) : Status();
  });
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_WRITE_H_
