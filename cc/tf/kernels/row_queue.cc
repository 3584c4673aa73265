#include "cc/tf/kernels/row_queue.h"

#include <algorithm>
#include <utility>

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/lib/random/random.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::CancellationManager;
using tensorflow::CancellationToken;
using tensorflow::DataTypeString;
using tensorflow::OkStatus;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::Cancelled;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

namespace {

tensorflow::random::PhiloxRandom Philox(int64_t seed, int64_t seed2) {
  if (seed != 0 || seed2 != 0) return tensorflow::random::PhiloxRandom(seed, seed2);
  seed = static_cast<int64_t>(tensorflow::random::New64());
  return tensorflow::random::PhiloxRandom(seed, tensorflow::random::New64());
}

TensorShape WithRows(TensorShape shape, int64_t rows) {
  shape.InsertDim(0, rows);
  return shape;
}

TfStatus WrongShape(size_t component, const TensorShape& wanted, const Tensor& found) {
  return InvalidArgument("Shape mismatch in tuple component ", component, ". Expected ", wanted.DebugString(), ", got ",
                         found.shape().DebugString());
}

}  // namespace

RowQueue::RowQueue(const RowQueueOptions& options)
    : options_(options),
      rows_(options.dtypes, options.shapes),
      philox_(Philox(options.seed, options.seed2)),
      draw_(&philox_) {}

TfStatus RowQueue::ValidateTypes(const Tuple& tuple) const {
  if (tuple.size() != options_.dtypes.size()) {
    return InvalidArgument("Wrong number of components in tuple. Expected ", options_.dtypes.size(), ", got ",
                           tuple.size());
  }
  for (size_t i = 0; i < tuple.size(); ++i) {
    if (tuple[i].dtype() != options_.dtypes[i]) {
      return InvalidArgument("Type mismatch in tuple component ", i, ". Expected ", DataTypeString(options_.dtypes[i]),
                             ", got ", DataTypeString(tuple[i].dtype()));
    }
  }
  return OkStatus();
}

TfStatus RowQueue::ValidateTuple(const Tuple& tuple) {
  TF_RETURN_IF_ERROR(ValidateTypes(tuple));
  for (size_t i = 0; i < tuple.size(); ++i) {
    if (!options_.shapes[i].IsSameSize(tuple[i].shape())) return WrongShape(i, options_.shapes[i], tuple[i]);
  }
  return OkStatus();
}

TfStatus RowQueue::ValidateManyTuple(const Tuple& tuple) {
  TF_RETURN_IF_ERROR(ValidateTypes(tuple));
  if (tuple[0].dims() == 0) return WrongShape(0, WithRows(options_.shapes[0], 1), tuple[0]);
  for (size_t i = 0; i < tuple.size(); ++i) {
    const TensorShape wanted = WithRows(options_.shapes[i], tuple[0].dim_size(0));
    if (!wanted.IsSameSize(tuple[i].shape())) return WrongShape(i, wanted, tuple[i]);
  }
  return OkStatus();
}

void RowQueue::TryEnqueue(const Tuple& tuple, OpKernelContext* ctx, DoneCallback callback) {
  Enqueue(tuple, 1, ctx, std::move(callback));
}

void RowQueue::TryEnqueueMany(const Tuple& tuple, OpKernelContext* ctx, DoneCallback callback) {
  if (tuple[0].dim_size(0) == 0) return callback();
  Enqueue(tuple, tuple[0].dim_size(0), ctx, std::move(callback));
}

void RowQueue::Enqueue(const Tuple& rows, int64_t count, OpKernelContext* ctx, DoneCallback callback) {
  Attempt attempt{ctx, ctx->cancellation_manager(), CancellationManager::kInvalidToken, std::move(callback)};
  attempt.wanted = count;
  attempt.rows = rows;
  Try(&enqueues_, std::move(attempt));
}

void RowQueue::TryDequeue(OpKernelContext* ctx, CallbackWithTuple callback) {
  Attempt attempt{ctx, ctx->cancellation_manager(), CancellationManager::kInvalidToken, [callback]() { callback({}); }};
  attempt.wanted = 1;
  attempt.many = false;
  attempt.give = std::move(callback);
  Try(&dequeues_, std::move(attempt));
}

void RowQueue::TryDequeueMany(int num_elements, OpKernelContext* ctx, bool allow_small_batch,
                              CallbackWithTuple callback) {
  Attempt attempt{ctx, ctx->cancellation_manager(), CancellationManager::kInvalidToken, [callback]() { callback({}); }};
  if (num_elements == 0) {
    Tuple nothing;
    const TfStatus status = Gather(&attempt, &nothing);
    if (!status.ok()) {
      ctx->SetStatus(status);
      nothing.clear();
    }
    return callback(nothing);
  }
  attempt.wanted = num_elements;
  attempt.small = allow_small_batch;
  attempt.give = std::move(callback);
  Try(&dequeues_, std::move(attempt));
}

TfStatus RowQueue::WasCancelled(const Attempts* attempts) const {
  return Cancelled(attempts == &enqueues_ ? "Enqueue" : "Dequeue", " operation was cancelled");
}

void RowQueue::Try(Attempts* attempts, Attempt attempt) {
  CancellationManager* const manager = attempt.manager;
  bool cancelled = false;
  {
    tensorflow::mutex_lock lock(mutex_);
    if (manager != nullptr) {
      const CancellationToken token = attempt.token = manager->get_cancellation_token();
      cancelled = !manager->RegisterCallback(token, [=]() { Cancel(attempts, manager, token); });
    }
    if (!cancelled) attempts->push_back(std::move(attempt));
  }
  if (!cancelled) return GoOn();
  attempt.ctx->SetStatus(WasCancelled(attempts));
  attempt.done();
}

void RowQueue::Cancel(Attempts* attempts, const CancellationManager* manager, CancellationToken token) {
  DoneCallback done;
  {
    tensorflow::mutex_lock lock(mutex_);
    for (Attempt& attempt : *attempts) {
      if (attempt.token != token || attempt.manager != manager) continue;
      if (!attempt.cancelled) {
        attempt.cancelled = true;
        attempt.ctx->SetStatus(WasCancelled(attempts));
        std::swap(done, attempt.done);
      }
      break;
    }
  }
  if (done) {
    done();
    GoOn();
  }
}

void RowQueue::Close(OpKernelContext* ctx, bool cancel_pending_enqueues, DoneCallback callback) {
  if (!cancel_pending_enqueues) {
    Attempt attempt{ctx, nullptr, CancellationManager::kInvalidToken, std::move(callback)};
    attempt.closes = true;
    return Try(&enqueues_, std::move(attempt));
  }
  std::vector<DoneCallback> cancelled;
  {
    tensorflow::mutex_lock lock(mutex_);
    closed_ = true;
    for (Attempt& attempt : enqueues_) {
      if (attempt.cancelled) continue;
      attempt.cancelled = true;
      attempt.ctx->SetStatus(WasCancelled(&enqueues_));
      cancelled.push_back(std::move(attempt.done));
    }
  }
  for (const DoneCallback& done : cancelled) done();
  GoOn();
  callback();
}

bool RowQueue::is_closed() const {
  tensorflow::mutex_lock lock(mutex_);
  return closed_;
}

tensorflow::int32 RowQueue::size() const {
  tensorflow::mutex_lock lock(mutex_);
  return static_cast<tensorflow::int32>(order_.size());
}

// The op that this queue stands for gives it, too, under the same shared_name.
TfStatus RowQueue::MatchesNodeDef(const tensorflow::NodeDef& node_def) {
  tensorflow::DataTypeVector dtypes;
  std::vector<TensorShape> shapes;
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node_def, "component_types", &dtypes));
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node_def, "shapes", &shapes));
  const std::string wanted = std::string(kind()) + "V2";
  if (dtypes == options_.dtypes && shapes == options_.shapes && node_def.op() == wanted) return OkStatus();
  return InvalidArgument("Queue '", options_.name, "' is a ", wanted, " of ",
                         tensorflow::DataTypeVectorString(options_.dtypes), "; node '", node_def.name(),
                         "' wants it to be a ", node_def.op(), " of ", tensorflow::DataTypeVectorString(dtypes),
                         "; give one of them another shared_name");
}

void RowQueue::GoOn() {
  Finished finished;
  Ref();
  {
    tensorflow::mutex_lock lock(mutex_);
    bool changed;
    do {
      changed = GoOn(&enqueues_, &RowQueue::AdvanceEnqueue, &finished);
      changed |= GoOn(&dequeues_, &RowQueue::AdvanceDequeue, &finished);
    } while (changed);
  }
  Unref();
  for (const auto& finish : finished) finish();
}

bool RowQueue::GoOn(Attempts* attempts, Progress (RowQueue::*advance)(Attempt*), Finished* finished) {
  bool changed = false;
  while (!attempts->empty()) {
    Attempt& first = attempts->front();
    if (first.cancelled) {
      rows_.Free(first.slots);  // As TensorFlow loses what a dequeue has got that is cancelled.
    } else {
      const Progress progress = (this->*advance)(&first);
      changed |= progress != Progress::kNone;
      if (progress != Progress::kDone) break;
      finished->push_back([done = std::move(first.done), manager = first.manager, token = first.token]() {
        if (manager != nullptr) manager->DeregisterCallback(token);
        done();
      });
    }
    attempts->pop_front();
  }
  return changed;
}

RowQueue::Progress RowQueue::AdvanceEnqueue(Attempt* attempt) {
  if (closed_) {
    attempt->ctx->SetStatus(attempt->closes ? Cancelled("Queue '", options_.name, "' is already closed.")
                                            : Cancelled(kind(), " '", options_.name, "' is closed."));
    return Progress::kDone;
  }
  if (attempt->closes) {
    closed_ = true;
    return Progress::kDone;
  }
  const int64_t room = options_.capacity - static_cast<int64_t>(order_.size());
  const int64_t count = std::min(attempt->wanted, room);
  if (count <= 0) return Progress::kNone;
  std::vector<int64_t> slots;
  rows_.Put(attempt->rows, attempt->put, count, &slots);
  order_.insert(order_.end(), slots.begin(), slots.end());
  attempt->put += count;
  attempt->wanted -= count;
  return attempt->wanted == 0 ? Progress::kDone : Progress::kSome;
}

int64_t RowQueue::NextSlot() {
  int64_t slot = order_.front();
  if (options_.shuffle) {
    int64_t& drawn = order_[draw_() % order_.size()];
    slot = drawn;
    drawn = order_.back();
    order_.pop_back();
  } else {
    order_.pop_front();
  }
  return slot;
}

// What a batch has got that will not be full: a shuffle has them behind all others, in the order in which TensorFlow
// puts them there.
void RowQueue::PutBack(Attempt* attempt) {
  std::vector<int64_t>* const slots = &attempt->slots;
  if (options_.shuffle) {
    order_.insert(order_.end(), slots->rbegin(), slots->rend());
  } else {
    order_.insert(order_.begin(), slots->begin(), slots->end());
  }
  slots->clear();
}

RowQueue::Progress RowQueue::AdvanceDequeue(Attempt* attempt) {
  int64_t available = static_cast<int64_t>(order_.size());
  if (closed_ && available < attempt->wanted) {
    PutBack(attempt);
    if (attempt->small && !order_.empty()) {
      attempt->wanted = available = static_cast<int64_t>(order_.size());
    } else {
      if (attempt->small && !enqueues_.empty()) return Progress::kSome;
      attempt->ctx->SetStatus(tensorflow::errors::OutOfRange(kind(), " '", options_.name,
                                                             "' is closed and has insufficient elements (requested ",
                                                             attempt->wanted, ", current size ", available, ")"));
      return Progress::kDone;
    }
  }
  if (!closed_) available -= options_.min_after_dequeue;
  const int64_t count = std::min(available, attempt->wanted);
  if (count <= 0) return Progress::kNone;
  for (int64_t i = 0; i < count; ++i) attempt->slots.push_back(NextSlot());
  attempt->wanted -= count;
  if (attempt->wanted > 0) return Progress::kSome;
  Tuple tuple;
  const TfStatus status = Gather(attempt, &tuple);
  if (!status.ok()) {
    attempt->ctx->SetStatus(status);
  } else {
    attempt->done = [give = std::move(attempt->give), tuple = std::move(tuple)]() { give(tuple); };
  }
  return Progress::kDone;
}

TfStatus RowQueue::Gather(Attempt* attempt, Tuple* tuple) {
  const int64_t count = static_cast<int64_t>(attempt->slots.size());
  for (size_t i = 0; i < options_.shapes.size(); ++i) {
    const TensorShape shape = attempt->many ? WithRows(options_.shapes[i], count) : options_.shapes[i];
    tuple->emplace_back();
    const TfStatus status = attempt->ctx->allocate_temp(options_.dtypes[i], shape, &tuple->back());
    if (!status.ok()) {
      rows_.Free(attempt->slots);
      return status;
    }
  }
  rows_.Take(attempt->slots.data(), count, tuple);
  return OkStatus();
}

}  // namespace tf_booster
