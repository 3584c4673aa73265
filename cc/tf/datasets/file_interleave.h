// The records of many files: one file after another, or several in turns.
#ifndef TF_BOOSTER_CC_TF_DATASETS_FILE_INTERLEAVE_H_
#define TF_BOOSTER_CC_TF_DATASETS_FILE_INTERLEAVE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "cc/core/record_reader/record_file.h"
#include "cc/tf/datasets/record_stream.h"
#include "tensorflow/core/framework/dataset.h"

namespace tf_booster {

struct InterleaveOptions {
  int64_t cycle_length = 1;
  int64_t block_length = 1;
  // Where an error stands in for a record. tf.data's parallel interleave counts it as one of the block, its sequential
  // interleave and flat_map do not.
  bool errors_count = false;
};

// Makes the iterator over the names of files: scalar strings.
using MakeFileNames = std::function<tensorflow::Status(tensorflow::data::IteratorContext*,
                                                       std::unique_ptr<tensorflow::data::IteratorBase>*)>;

// The order of tf.data's interleave: `cycle_length` places, each with a file, give `block_length` records in turn. A
// place whose file has ended takes the next file when its turn comes round again. Files that come next are opened and
// read ahead. `read` and what it points at outlive the stream.
std::unique_ptr<RecordStream> InterleaveFiles(const ReadOptions* read, const InterleaveOptions& options,
                                              MakeFileNames make_names);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_FILE_INTERLEAVE_H_
