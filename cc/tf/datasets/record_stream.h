// Records on their way to a batch: from files, through what a pipeline does to records before it batches them. Each
// stage answers as tf.data's transformation of that name does: same records, same order, same place of errors.
//
// Streams are used by one thread at a time.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_STREAM_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/record_reader/record.h"
#include "tensorflow/core/framework/dataset.h"

namespace tf_booster {

class RecordStream {
 public:
  virtual ~RecordStream() = default;

  // Once, before Next, as tf.data's Initialize: file names are listed and shuffles draw their seeds, though nobody may
  // ever ask for a record.
  virtual tensorflow::Status Start(tensorflow::data::IteratorContext* ctx) = 0;
  // The next record; `*end`: there are no more. After an error the stream can be asked on.
  virtual tensorflow::Status Next(tensorflow::data::IteratorContext* ctx, Record* record, bool* end) = 0;

  // Keys begin with `name`, which no other stream of the iterator has. A stream that is restored has not been asked
  // yet.
  virtual tensorflow::Status Save(tensorflow::data::SerializationContext* ctx,
                                  tensorflow::data::IteratorStateWriter* writer, const std::string& name) const = 0;
  virtual tensorflow::Status Restore(tensorflow::data::IteratorContext* ctx,
                                     tensorflow::data::IteratorStateReader* reader, const std::string& name) = 0;
};

// A stage that begins anew makes its input anew.
using MakeRecordStream = std::function<std::unique_ptr<RecordStream>()>;

// The state of a stage's input, which is null where it has ended or has not begun. `name`: the stage's.
tensorflow::Status SaveInput(tensorflow::data::SerializationContext* ctx, tensorflow::data::IteratorStateWriter* writer,
                             const std::string& name, const RecordStream* input);
tensorflow::Status RestoreInput(tensorflow::data::IteratorContext* ctx, tensorflow::data::IteratorStateReader* reader,
                                const std::string& name, const MakeRecordStream& make,
                                std::unique_ptr<RecordStream>* input);

// `count` times the input; -1: for ever, unless the input is empty.
std::unique_ptr<RecordStream> RepeatRecords(MakeRecordStream input, int64_t count);
// The first `count` records; -1: all.
std::unique_ptr<RecordStream> TakeRecords(MakeRecordStream input, int64_t count);
// Without the first `count` records; -1: none are left.
std::unique_ptr<RecordStream> SkipRecords(MakeRecordStream input, int64_t count);
// Every record whose number modulo `num_shards` is `index`.
std::unique_ptr<RecordStream> ShardRecords(MakeRecordStream input, int64_t num_shards, int64_t index);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_STREAM_H_
