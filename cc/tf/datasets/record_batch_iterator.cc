// Threads that parse, or make other elements, gather their batches themselves, one thread at a time (OrderedLine).
//
// State that is saved: the place in the files, and the records of batches that were gathered but not handed out. They
// are parsed again after a restore, which costs less than storing tensors would.
#include "cc/tf/datasets/record_batch_iterator.h"

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/record_reader/ordered_line.h"
#include "cc/tf/datasets/file_source.h"
#include "tensorflow/core/data/dataset_utils.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/metrics.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/profiler/lib/traceme.h"

namespace tf_booster {
namespace {

using tensorflow::condition_variable;
using tensorflow::mutex;
using tensorflow::mutex_lock;
using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;
namespace model = tensorflow::data::model;

constexpr char kBatches[] = "/batches";
constexpr size_t kCsvBuffer = 4 << 20;  // TensorFlow's CsvDataset fills it, or fails.

class RecordBatchIterator final : public tensorflow::data::DatasetIterator<RecordBatchDataset> {
 public:
  explicit RecordBatchIterator(const Params& params)
      : DatasetIterator(params),
        mu_(std::make_shared<mutex>()),
        parallelism_(std::make_shared<model::SharedState>(dataset()->options().num_parallel_calls, mu_,
                                                          std::make_shared<condition_variable>())),
        in_caller_(dataset()->options().num_parallel_calls == 1),
        bytes_read_(tensorflow::metrics::GetTFDataBytesReadCounter(dataset()->type())),
        line_(dataset()->options().deterministic) {}

  ~RecordBatchIterator() override {
    line_.Cancel();
    threads_.clear();  // Joins.
    if (deregister_) deregister_();
  }

  Status Initialize(IteratorContext* ctx) override {
    const RecordPipeline& pipeline = dataset()->options().pipeline;
    double parsers = 1;
    {
      mutex_lock lock(*mu_);
      if (parallelism_->value == model::kAutotune) {
        parallelism_->value = tensorflow::data::GetAutotuneDefaultParallelism(ctx);
      }
      parsers = parallelism_->value;
    }
    ahead_.SetParsers(parsers);
    const RecordPipeline::Ahead ahead = pipeline.PlanReads(tensorflow::port::MaxParallelism(), parsers);
    TF_RETURN_IF_ERROR(tensorflow::RegisterCancellationCallback(
        ctx->cancellation_manager(), [this] { line_.Cancel(); }, &deregister_));
    read_threads_ = ctx->CreateThreadPool("tf_booster_read_records", ahead.threads);
    read_.open = OpenFilesOf(ctx->env(), pipeline.compression, pipeline.format == FileFormat::kCsv ? kCsvBuffer : 0);
    read_.op = pipeline.op;
    read_.format = pipeline.format;
    read_.verify_crc = pipeline.verify_crc;
    read_.csv = pipeline.csv;
    read_.header_records = pipeline.header_lines;
    read_.block_bytes = pipeline.BlockBytes();
    read_.blocks_ahead = ahead.blocks;
    read_.files_ahead = ahead.files;
    read_.blocks = BlockPool::Shared();
    read_.schedule = [this](std::function<void()> load) { read_threads_->Schedule(std::move(load)); };
    read_.ahead = &ahead_;
    read_.cancelled = &line_.cancelled();
    read_.wanted = &wanted_;
    read_.files_in_turns = pipeline.interleave.cycle_length;
    const auto make_names = [this](IteratorContext* names_ctx, std::unique_ptr<IteratorBase>* names) {
      return dataset()->files()->MakeIterator(names_ctx, this, prefix(), names);
    };
    batcher_ = pipeline.MakeBatcher(&read_, make_names, &wanted_);
    return batcher_->Start(ctx);
  }

  Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* element, bool* end) override {
    if (in_caller_) return GetNextHere(ctx, element, end);
    StartThreads(ctx);
    std::shared_ptr<Result> result;
    const Line::Taken taken = line_.Take(&result, Maker{this, ctx});
    if (taken == Line::Taken::kCancelled) return tensorflow::errors::Cancelled("Iterator was cancelled");
    *end = taken == Line::Taken::kEnd;
    if (*end) return OkStatus();
    if (!result->status.ok()) return result->status;
    RecordBufferDequeue(ctx, result->element);
    *element = std::move(result->element);
    return OkStatus();
  }

  Status SkipInternal(IteratorContext* ctx, int num_to_skip, bool* end, int* num_skipped) override {
    if (!in_caller_) return DatasetIterator::SkipInternal(ctx, num_to_skip, end, num_skipped);
    mutex_lock lock(source_mu_);
    *num_skipped = 0;
    *end = false;
    while (*num_skipped < num_to_skip) {
      RecordBatch batch;
      Gather(ctx, &batch, end);
      if (*end || !batch.status.ok()) return batch.status;
      ++*num_skipped;
    }
    return OkStatus();
  }

 protected:
  std::shared_ptr<model::Node> CreateNode(IteratorContext* ctx, model::Node::Args args) const override {
    if (in_caller_) return model::MakeUnknownRatioNode(std::move(args));
    return model::MakeAsyncUnknownRatioNode(
        std::move(args),
        {model::MakeParameter(model::kParallelism, parallelism_, /*min=*/1, /*max=*/ctx->runner_threadpool_size())});
  }

  Status SaveInternal(SerializationContext* ctx, IteratorStateWriter* writer) override {
    mutex_lock lock(source_mu_);
    return line_.Hold([&](const std::vector<const Result*>& results) {
      std::vector<const RecordBatch*> ahead;
      for (const Result* result : results) ahead.push_back(&result->batch);
      return batcher_->Save(ctx, writer, prefix() + kBatches, ahead);
    });
  }

  Status RestoreInternal(IteratorContext* ctx, IteratorStateReader* reader) override {
    mutex_lock lock(source_mu_);
    return line_.Hold([&](const auto&) { return batcher_->Restore(ctx, reader, prefix() + kBatches); });
  }

  tensorflow::data::TraceMeMetadata GetTraceMeMetadata() const override {
    return {{"parallelism", std::to_string(dataset()->options().num_parallel_calls)},
            {"deterministic", dataset()->options().deterministic ? "true" : "false"}};
  }

 private:
  struct Result {
    RecordBatch batch;  // Kept until the result is taken: its records may have to be saved.
    Status status;
    std::vector<Tensor> element;
  };
  using Line = OrderedLine<Result>;

  struct Maker {
    RecordBatchIterator* iterator;
    IteratorContext* ctx;

    Begun Begin(Result* result) {
      bool end = false;
      iterator->Gather(ctx, &result->batch, &end);
      result->status = result->batch.status;
      return end ? Begun::kEnd : result->status.ok() ? Begun::kToFinish : Begun::kDone;
    }
    void Finish(Result* result) {
      result->status = iterator->line_.cancelled() ? tensorflow::errors::Cancelled("Iterator was cancelled")
                                                   : iterator->MakeElement(&result->batch, &result->element);
      if (result->status.ok()) iterator->RecordBufferEnqueue(ctx, result->element);
    }
    // Time in which a thread sleeps is not the dataset's.
    void Stop() { iterator->RecordStop(ctx); }
    void Start() { iterator->RecordStart(ctx); }
  };

  void Gather(IteratorContext* ctx, RecordBatch* batch, bool* end) {
    tensorflow::profiler::TraceMe trace([this] { return dataset()->type() + "::Gather"; });
    batcher_->Next(ctx, batch, end);
    int64_t bytes = 0;
    for (const auto& record : batch->records) bytes += record.size;
    bytes_read_->IncrementBy(bytes);
  }

  Status MakeElement(RecordBatch* batch, std::vector<Tensor>* element) const {
    tensorflow::profiler::TraceMe trace([this] { return dataset()->type() + "::MakeElement"; });
    return dataset()->MakeElement(batch, element);
  }

  Status GetNextHere(IteratorContext* ctx, std::vector<Tensor>* element, bool* end) {
    RecordBatch batch;
    {
      mutex_lock lock(source_mu_);
      Gather(ctx, &batch, end);
    }
    if (*end || !batch.status.ok()) return batch.status;
    return MakeElement(&batch, element);
  }

  // As many threads as may parse at once; tf.data may want more of them later.
  void StartThreads(IteratorContext* ctx) {
    mutex_lock lock(*mu_);
    const double parallelism = parallelism_->value;
    line_.SetWorkers(parallelism);
    ahead_.SetParsers(parallelism);
    if (own_ctx_ == nullptr) own_ctx_ = std::make_shared<IteratorContext>(*ctx);
    while (static_cast<double>(threads_.size()) < parallelism) {
      threads_.push_back(ctx->StartThread("tf_booster_parse_records", [this, own = own_ctx_] { ParseAll(own.get()); }));
    }
  }

  void ParseAll(IteratorContext* ctx) {
    RecordStart(ctx);
    line_.Work(Maker{this, ctx});
    RecordStop(ctx);
  }

  const std::shared_ptr<mutex> mu_;  // Of how many threads there are; tf.data's model changes parallelism_ under it.
  const std::shared_ptr<model::SharedState> parallelism_;
  const bool in_caller_;
  tensorflow::monitoring::CounterCell* const bytes_read_;
  std::function<void()> deregister_;

  Line line_;
  std::unique_ptr<tensorflow::thread::ThreadPool> read_threads_;
  ReadAhead ahead_{tensorflow::port::MaxParallelism(), !dataset()->options().pipeline.compression.empty()};
  ReadOptions read_;
  std::atomic<int64_t> wanted_{0};
  mutex source_mu_;  // Of the batcher, where no threads parse.
  std::unique_ptr<RecordBatcher> batcher_;
  std::shared_ptr<IteratorContext> own_ctx_;
  std::vector<std::unique_ptr<tensorflow::Thread>> threads_;
};

}  // namespace

std::unique_ptr<IteratorBase> MakeRecordBatchIterator(const RecordBatchDataset* dataset, const std::string& prefix) {
  return std::make_unique<RecordBatchIterator>(RecordBatchIterator::Params{dataset, prefix});
}

}  // namespace tf_booster
