// The way of records from files to batches, described and built.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_PIPELINE_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_PIPELINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/tf/datasets/file_interleave.h"
#include "cc/tf/datasets/record_batch.h"
#include "cc/tf/datasets/seed_sequence.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_booster {

class RecordCache;
struct RecordFilter;

struct RecordStage {
  static constexpr int kArguments = 5;

  std::string name;
  std::array<int64_t, kArguments> arguments;
  std::shared_ptr<SeedSequence> seeds;         // Of shuffle.
  std::shared_ptr<RecordCache> cache;          // Of cache.
  std::shared_ptr<const RecordFilter> filter;  // Of filter. Arguments: how many keys and captured tensors; by_row.
};

struct RecordPipeline {
  std::string op;  // Begins the messages of errors.
  FileFormat format = FileFormat::kTFRecord;
  bool parses = false;  // Whether records are parsed, as filters want them.
  CsvFraming csv;       // Of kCsv.
  std::string compression;
  int64_t block_bytes = 0;  // 0: see BlockBytes().
  bool verify_crc = true;
  int64_t header_lines = 0;  // At the start of each file, left out.
  InterleaveOptions interleave;
  std::vector<RecordStage> stages;
  BatchOptions batch;

  // The stages of the op's attribute and argument; filters are left to be set. InvalidArgument names the stage that is
  // wrong.
  tensorflow::Status SetStages(const std::vector<std::string>& names, const std::vector<int64_t>& arguments);
  // What SetStages makes the same stages of. for_copy: shuffles whose copies share draw from the seeds of these, in
  // this process.
  void GetStages(bool for_copy, std::vector<std::string>* names, std::vector<int64_t>* arguments) const;
  // InvalidArgument for a size, count or shard that cannot be.
  tensorflow::Status Check() const;

  // 1 MiB, less where many files are open at once: up to five blocks of each are held.
  size_t BlockBytes() const;
  // How files are read ahead where this process may use `processors`, and `parsers` threads may parse.
  struct Ahead {
    int threads;    // For reading: one for each open file and for each of the next.
    size_t files;   // The next ones that are open, once all of cycle_length are.
    size_t blocks;  // Of each.
  };
  Ahead PlanReads(int processors, double parsers) const;
  // Of batches, as tf.data counts its own transformations of files, whose records are not counted.
  int64_t Cardinality(bool no_files) const;

  // `read` and `wanted` (see RecordBatcher) outlive the batcher.
  std::unique_ptr<RecordBatcher> MakeBatcher(const ReadOptions* read, MakeFileNames make_names,
                                             std::atomic<int64_t>* wanted) const;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_PIPELINE_H_
