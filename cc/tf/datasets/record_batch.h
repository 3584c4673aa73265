// The records of one batch, and what keeps their bytes alive.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "cc/tf/datasets/record_stream.h"

namespace tf_booster {

struct RecordBatch {
  std::vector<example_parser::Record> records;
  std::vector<std::shared_ptr<RecordBlock>> blocks;
  std::vector<std::unique_ptr<char[]>> owned;
  tensorflow::Status status;  // In place of records.
};

struct BatchOptions {
  int64_t batch_size = 1;
  bool drop_remainder = false;
  // Of the batches, only those whose number modulo `num_shards` is `shard`; the others are never parsed.
  int64_t num_shards = 1, shard = 0;
  // Whether an error of the stream counts as a record of its batch, as in tf.data's map_and_batch; otherwise the next
  // batch begins behind it.
  bool errors_count = false;
};

// Cuts a stream of records into batches. One thread at a time.
class RecordBatcher {
 public:
  // `wanted`: how many records the batch at hand still lacks, for those who read files.
  RecordBatcher(std::unique_ptr<RecordStream> stream, const BatchOptions& options, std::atomic<int64_t>* wanted)
      : stream_(std::move(stream)), options_(options), wanted_(*wanted) {}

  // Once, before Next and Restore.
  tensorflow::Status Start(tensorflow::data::IteratorContext* ctx) { return stream_->Start(ctx); }

  // The next batch; `*end`: there is none. An error of the stream takes the place of the batch that it interrupts, and
  // the records that were gathered for it are gone, as in tf.data's batch; see errors_count.
  void Next(tensorflow::data::IteratorContext* ctx, RecordBatch* batch, bool* end);

  // `ahead`: batches that Next has given and nobody has consumed yet; a restored batcher gives them again.
  tensorflow::Status Save(tensorflow::data::SerializationContext* ctx, tensorflow::data::IteratorStateWriter* writer,
                          const std::string& name, const std::vector<const RecordBatch*>& ahead) const;
  tensorflow::Status Restore(tensorflow::data::IteratorContext* ctx, tensorflow::data::IteratorStateReader* reader,
                             const std::string& name);

 private:
  void Add(Record record, RecordBatch* batch) const;
  void Gather(tensorflow::data::IteratorContext* ctx, RecordBatch* batch, bool* end);

  const std::unique_ptr<RecordStream> stream_;
  const BatchOptions options_;
  std::atomic<int64_t>& wanted_;
  std::deque<RecordBatch> restored_;
  bool ended_ = false;
  int64_t next_ = 0;      // The number of the next batch.
  uint64_t attempt_ = 0;  // Marks the blocks that the batch at hand holds already.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_BATCH_H_
