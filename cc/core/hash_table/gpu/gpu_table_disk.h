// Of gpu_table_impl.h: rows on a disk, on their way to the card and back (disk_bodies.h). Only here does a table wait
// for a disk, and for the card to learn what is to be read: where no rows are there, nothing of this is called.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_DISK_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_DISK_H_

#include <algorithm>

#include "cc/core/hash_table/gpu/disk_bodies.h"
#include "cc/core/hash_table/gpu/gpu_table_impl.h"
#include "cc/core/hash_table/gpu/swap_bodies.h"

namespace tf_booster {
namespace gpu {

template <class Queue>
Status GpuTableOn<Queue>::DiskFailed() const {
  disk_failed_ = true;
  return Done();
}

// Reads rows by way of the staging memory: visit(first, n) when n of them are there, from the first on.
template <class Queue>
template <class Visit>
Status GpuTableOn<Queue>::StageRows(const State& state, const std::vector<uint32_t>& rows, const Visit& visit) const {
  const int64_t n = static_cast<int64_t>(rows.size());
  for (int64_t done = 0; done < n; done += state.rows_of_staging()) {
    const int64_t part = std::min(n - done, state.rows_of_staging());
    if (!state.disk->Read(rows.data() + done, part, state.staging())) return DiskFailed();
    visit(done, part);
  }
  return Done();
}

// Rows of `copies`, side by side, are those of the disk.
template <class Queue>
Status GpuTableOn<Queue>::ReadRows(const State& state, const std::vector<uint32_t>& rows, char* copies) const {
  const int64_t stride = state.layout.stride_bytes;
  return StageRows(state, rows, [&](int64_t first, int64_t n) {
    queue_.FromHost(state.staging(), n * stride, copies + first * stride);
  });
}

// And back. new_only: those that came with the batch.
template <class Queue>
Status GpuTableOn<Queue>::WriteRows(State* state, const std::vector<uint32_t>& rows, const char* copies,
                                    bool new_only) const {
  const int64_t n = static_cast<int64_t>(rows.size()), stride = state->layout.stride_bytes;
  for (int64_t done = 0; done < n; done += state->rows_of_staging()) {
    const int64_t part = std::min(n - done, state->rows_of_staging());
    queue_.ToHost(copies + done * stride, part * stride, state->staging());
    TFB_RETURN_IF_ERROR(Done());
    if (!state->disk->Write(rows.data() + done, part, state->staging(), new_only)) return DiskFailed();
  }
  return Done();
}

template <class Queue>
template <class FillRows>
Status GpuTableOn<Queue>::ListRows(const State& state, int64_t n, bool may_repeat, const FillRows& fill,
                                   DiskBatch* batch) const {
  const int64_t sum_bytes = Queue::SumBytes(n), set_size = may_repeat ? MarkRows::SetSize(n) : 0;
  int32_t *flags = nullptr, *ranks = nullptr;
  uint32_t* list = nullptr;
  uint64_t* set = nullptr;
  char* sum_scratch = nullptr;
  const auto take = [&](Scratch* scratch) {
    batch->places = scratch->Take<uint32_t>(n);
    flags = scratch->Take<int32_t>(n);
    ranks = scratch->Take<int32_t>(n);
    list = scratch->Take<uint32_t>(n);
    set = may_repeat ? scratch->Take<uint64_t>(set_size) : nullptr;
    sum_scratch = scratch->Take<char>(sum_bytes);
  };
  TFB_RETURN_IF_ERROR(TakeArrays(take, &batch->block));
  fill(batch->places);
  MarkRows marks = {state.view, batch->places, true, n};
  if (may_repeat) marks = MarkIn(set, marks);
  const RowsOnDisk body(marks, state.disk_from(), flags, ranks);
  ForEach(queue_, n, FlagOnDisk(body));
  queue_.InclusiveSum(flags, ranks, n, sum_scratch);
  ForEach(queue_, n, ListOnDisk(body, list));
  int32_t size = 0;
  queue_.ToHost(ranks + n - 1, 1, &size);
  TFB_RETURN_IF_ERROR(Done());
  batch->rows.resize(size);
  queue_.ToHost(list, size, batch->rows.data());
  batch->found.emplace(body);
  return Done();
}

template <class Queue>
template <class FillRows>
Status GpuTableOn<Queue>::FetchRows(State* state, int64_t n, bool may_repeat, const FillRows& fill,
                                    DiskBatch* batch) const {
  TFB_RETURN_IF_ERROR(ListRows(*state, n, may_repeat, fill, batch));
  const int64_t size = static_cast<int64_t>(batch->rows.size());
  if (size > 0) {
    const int64_t bytes = size * state->layout.stride_bytes;
    TFB_RETURN_IF_ERROR(Take(bytes, &batch->copies));
    if (!state->Overlay(queue_, batch->copies.get(), size)) return Exhausted(bytes, -1, "a batch's rows on the disk");
    TFB_RETURN_IF_ERROR(ReadRows(*state, batch->rows, static_cast<char*>(batch->copies.get())));
  }
  ForEach(queue_, n, MapRows(*batch->found, state->row_end(), batch->places));
  return Done();
}

template <class Queue>
Status GpuTableOn<Queue>::FetchFound(const DeviceKeys& keys, const DeviceHandles& handles, DiskBatch* batch) const {
  const auto locate = [&](uint32_t* rows) {
    ForEach(queue_, keys.size, LocateRows{state_->view, keys, handles, rows});
  };
  return keys.size == 0 ? Status() : FetchRows(state_.get(), keys.size, false, locate, batch);
}

template <class Queue>
Status GpuTableOn<Queue>::ListFound(const DeviceKeys& keys, RowsAhead* ahead) const {
  const auto locate = [&](uint32_t* rows) { ForEach(queue_, keys.size, LocateRows{state_->view, keys, {}, rows}); };
  if (keys.size == 0 || !state_->uses_disk()) return Done();
  DiskBatch batch;
  const Status listed = ListRows(*state_, keys.size, false, locate, &batch);
  if (listed.code() == StatusCode::kResourceExhausted) return Done();  // Who reads the rows will say so, if need be.
  *ahead = {state_->disk, std::move(batch.rows)};
  return listed;
}

template <class Queue>
Status GpuTableOn<Queue>::StoreRows(State* state, const DiskBatch& batch, bool new_only) const {
  return WriteRows(state, batch.rows, static_cast<const char*>(batch.copies.get()), new_only);
}

// Which of the pairs change places is known when the host looks: the disk has to be told.
template <class Queue>
Status GpuTableOn<Queue>::SwapPairsWithDisk(const SwapBody& body) {
  State& state = *state_;
  int32_t idle = 0, all = 0;
  queue_.ToHost(body.arrays.sums + body.near.words() - 1, 1, &idle);
  queue_.ToHost(body.arrays.sums + body.Words() - 1, 1, &all);
  TFB_RETURN_IF_ERROR(Done());
  const int64_t pairs = std::min<int64_t>({idle, all - idle, body.most}), stride = state.layout.stride_bytes;
  if (pairs == 0) return Status();
  std::vector<uint32_t> used(pairs);
  queue_.ToHost(body.arrays.used, pairs, used.data());
  DeviceBlock copies;
  const int64_t most = std::min(pairs, state.rows_of_staging());
  if (!Take(most * stride, &copies).ok()) return Status();  // With the next turn, then.
  for (int64_t first = 0; first < pairs; first += most) {
    const int64_t part = std::min(pairs - first, most);
    const std::vector<uint32_t> rows(used.begin() + first, used.begin() + first + part);
    SwapRows swap(body);
    swap.first = first;
    swap.copies = static_cast<char*>(copies.get());
    TFB_RETURN_IF_ERROR(ReadRows(state, rows, swap.copies));
    ForEach<kGroupLanes>(queue_, part, swap);
    TFB_RETURN_IF_ERROR(WriteRows(&state, rows, swap.copies, false));
  }
  ForEach(queue_, 1, CommitSwap(body));
  return Done();
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_GPU_GPU_TABLE_DISK_H_
