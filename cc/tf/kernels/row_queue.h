// A queue of rows, for TensorFlow's own ops of queues: its FIFOQueue or RandomShuffleQueue with rows in blocks.
#ifndef TF_BOOSTER_CC_TF_KERNELS_ROW_QUEUE_H_
#define TF_BOOSTER_CC_TF_KERNELS_ROW_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "cc/tf/kernels/row_slots.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/queue_interface.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/random_distributions.h"
#include "tensorflow/core/platform/mutex.h"

namespace tf_booster {

struct RowQueueOptions {
  std::string name;      // Of the queue, for messages.
  int32_t capacity = 0;  // Rows.
  tensorflow::DataTypeVector dtypes;
  std::vector<tensorflow::TensorShape> shapes;  // One for each type.
  bool shuffle = false;                         // The rest is of RandomShuffleQueue.
  int32_t min_after_dequeue = 0;
  int64_t seed = 0, seed2 = 0;  // Both 0: at random.
};

// TensorFlow's queues make a tensor of each component of each row. Here a row lies in a slot, and what waits or is
// given out in turns are numbers of slots. Who waits for whom, what is given to whom, the rows that a shuffle draws for
// a seed, what closing and cancelling do, and all messages are as there.
class RowQueue final : public tensorflow::QueueInterface {
 public:
  explicit RowQueue(const RowQueueOptions& options);
  ~RowQueue() override = default;

  tensorflow::Status ValidateTuple(const Tuple& tuple) override;
  tensorflow::Status ValidateManyTuple(const Tuple& tuple) override;
  void TryEnqueue(const Tuple& tuple, tensorflow::OpKernelContext* ctx, DoneCallback callback) override;
  void TryEnqueueMany(const Tuple& tuple, tensorflow::OpKernelContext* ctx, DoneCallback callback) override;
  void TryDequeue(tensorflow::OpKernelContext* ctx, CallbackWithTuple callback) override;
  void TryDequeueMany(int num_elements, tensorflow::OpKernelContext* ctx, bool allow_small_batch,
                      CallbackWithTuple callback) override;
  void Close(tensorflow::OpKernelContext* ctx, bool cancel_pending_enqueues, DoneCallback callback) override;
  bool is_closed() const override;
  tensorflow::int32 size() const override;
  const tensorflow::DataTypeVector& component_dtypes() const override { return options_.dtypes; }
  tensorflow::Status MatchesNodeDef(const tensorflow::NodeDef& node_def) override;

 private:
  // What an op has asked for and not got yet. Those of a side are served one after the other.
  struct Attempt {
    tensorflow::OpKernelContext* ctx;
    tensorflow::CancellationManager* manager;
    tensorflow::CancellationToken token;
    DoneCallback done;
    bool cancelled = false;
    bool closes = false;         // The queue, in place of enqueuing.
    int64_t wanted = 0;          // How many rows are still to come or to go.
    Tuple rows;                  // That are enqueued.
    int64_t put = 0;             // How many of them are.
    bool many = true;            // Whether a batch is dequeued, or a row.
    bool small = false;          // Whether the batch may be smaller if the queue is closed.
    std::vector<int64_t> slots;  // Of the rows that are dequeued.
    CallbackWithTuple give;
  };
  enum class Progress { kNone, kSome, kDone };
  using Attempts = std::deque<Attempt>;
  using Finished = std::vector<std::function<void()>>;

  const char* kind() const { return options_.shuffle ? "RandomShuffleQueue" : "FIFOQueue"; }
  tensorflow::Status ValidateTypes(const Tuple& tuple) const;
  void Enqueue(const Tuple& rows, int64_t count, tensorflow::OpKernelContext* ctx, DoneCallback callback);
  tensorflow::Status WasCancelled(const Attempts* attempts) const;
  // Adds the attempt and lets all go on as far as they can.
  void Try(Attempts* attempts, Attempt attempt);
  void Cancel(Attempts* attempts, const tensorflow::CancellationManager* manager, tensorflow::CancellationToken token);
  void GoOn();
  // With mutex_ held.
  bool GoOn(Attempts* attempts, Progress (RowQueue::*advance)(Attempt*), Finished* finished);
  Progress AdvanceEnqueue(Attempt* attempt);
  Progress AdvanceDequeue(Attempt* attempt);
  void PutBack(Attempt* attempt);
  int64_t NextSlot();
  tensorflow::Status Gather(Attempt* attempt, Tuple* tuple);

  const RowQueueOptions options_;
  mutable tensorflow::mutex mutex_;
  RowSlots rows_;
  std::deque<int64_t> order_;  // The slots of those who are in the queue.
  bool closed_ = false;
  Attempts enqueues_, dequeues_;
  tensorflow::random::PhiloxRandom philox_;
  tensorflow::random::SingleSampleAdapter<tensorflow::random::PhiloxRandom> draw_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_ROW_QUEUE_H_
