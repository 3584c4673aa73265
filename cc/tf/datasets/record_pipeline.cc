#include "cc/tf/datasets/record_pipeline.h"

#include <algorithm>
#include <utility>

#include "cc/tf/datasets/file_source.h"
#include "cc/tf/datasets/record_cache.h"
#include "cc/tf/datasets/record_filter.h"
#include "cc/tf/datasets/record_shuffle.h"
#include "cc/tf/datasets/shared_seeds.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using tensorflow::OkStatus;
using tensorflow::data::kInfiniteCardinality;
using tensorflow::data::kUnknownCardinality;
using tensorflow::errors::InvalidArgument;
using TfStatus = tensorflow::Status;

namespace {

constexpr int64_t kMaxBlockBytes = 1 << 20, kMinBlockBytes = 64 << 10, kAllBlockBytes = 16 << 20;
constexpr int64_t kMaxReadThreads = 16;
constexpr int64_t kBlocksAhead = 4;
// One file is inflated by one thread, six times as long as its records are then parsed. So the next ones are inflated
// beside it, up to so many bytes of all together. More files ahead with less of each: of files of 14 MB, two ahead in
// place of one took 8 % less time, of files of 116 MB 10 % more, for of those each begins with what was ahead.
constexpr int64_t kInflatedBytes = 64 << 20;
constexpr int64_t kMaxInflated = 4;  // Files.
// A shuffle in the description of a copy. Arguments: buffer size, number of the shared seeds.
constexpr char kSharedShuffle[] = "shared_shuffle";

TfStatus CheckStage(const std::string& op, const RecordStage& stage) {
  const auto& arguments = stage.arguments;
  if (stage.name == "shuffle") {
    return arguments[0] > 0
               ? OkStatus()
               : InvalidArgument(op, ": the shuffle buffer has ", arguments[0], " records; wanted at least 1");
  }
  if (stage.name == "shard") {
    return arguments[0] > 0 && arguments[1] >= 0 && arguments[1] < arguments[0]
               ? OkStatus()
               : InvalidArgument(op, ": shard ", arguments[1], " of ", arguments[0],
                                 "; wanted an index from 0 to the number of shards less 1");
  }
  if (stage.name == "filter") {
    return arguments[0] >= 0 && arguments[1] >= 0
               ? OkStatus()
               : InvalidArgument(op, ": a filter has ", arguments[0], " keys and ", arguments[1],
                                 " captured tensors; wanted 0 or more");
  }
  for (const char* name : {"repeat", "take", "skip", "cache"}) {
    if (stage.name == name) return OkStatus();
  }
  return InvalidArgument(op, ": no stage is called '", stage.name,
                         "'; there are shuffle, repeat, take, skip, shard, cache, filter");
}

bool IsPartOfShuffle(const RecordStage& stage) { return stage.name == "repeat" && stage.arguments[1] != 0; }

// `epochs`: of a shuffle.
MakeRecordStream AddStage(const RecordStage& stage, int64_t epochs, MakeRecordStream input) {
  return [stage, epochs, input] {
    const auto& arguments = stage.arguments;
    if (stage.name == "shuffle") return ShuffleRecords(input, arguments[0], stage.seeds, epochs);
    if (stage.name == "repeat") return RepeatRecords(input, arguments[0]);
    if (stage.name == "take") return TakeRecords(input, arguments[0]);
    if (stage.name == "skip") return SkipRecords(input, arguments[0]);
    if (stage.name == "cache") return CacheRecords(input, stage.cache);
    if (stage.name == "filter") return FilterRecords(input, stage.filter);
    return ShardRecords(input, arguments[0], arguments[1]);
  };
}

}  // namespace

TfStatus RecordPipeline::SetStages(const std::vector<std::string>& names, const std::vector<int64_t>& arguments) {
  constexpr size_t kArguments = RecordStage::kArguments;
  if (arguments.size() != kArguments * names.size()) {
    return InvalidArgument(op, ": ", names.size(), " stages have ", arguments.size(), " arguments; wanted ", kArguments,
                           " for each");
  }
  stages.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    RecordStage stage{names[i], {}, nullptr, nullptr, nullptr};
    std::copy_n(arguments.begin() + kArguments * i, kArguments, stage.arguments.begin());
    if (stage.name == kSharedShuffle) {
      stage.seeds = SharedSeeds(stage.arguments[1]);
      if (stage.seeds == nullptr) {
        return InvalidArgument(op, ": the shuffled dataset of which this is a copy is gone");
      }
      const SeedSequence& seeds = *stage.seeds;
      stage.name = "shuffle";
      stage.arguments = {stage.arguments[0], seeds.seed(), seeds.seed2(), seeds.reshuffle(), /*copies share*/ 1};
    }
    TF_RETURN_IF_ERROR(CheckStage(op, stage));
    if (stage.name == "filter" && !parses) {
      return InvalidArgument(op, ": what is not parsed cannot be filtered; filter it behind the files");
    }
    if (stage.name == "shuffle" && stage.seeds == nullptr) {
      stage.seeds =
          std::make_shared<SeedSequence>(stage.arguments[1], stage.arguments[2], /*reshuffle=*/stage.arguments[3] != 0);
    }
    if (stage.name == "cache") stage.cache = std::make_shared<RecordCache>();
    stages.push_back(std::move(stage));
  }
  return OkStatus();
}

void RecordPipeline::GetStages(bool for_copy, std::vector<std::string>* names, std::vector<int64_t>* arguments) const {
  for (const RecordStage& stage : stages) {
    auto all = stage.arguments;
    const bool shared = for_copy && stage.seeds != nullptr && stage.arguments[4] != 0;
    if (shared) all = {stage.arguments[0], ShareSeeds(stage.seeds)};
    names->push_back(shared ? kSharedShuffle : stage.name);
    arguments->insert(arguments->end(), all.begin(), all.end());
  }
}

TfStatus RecordPipeline::Check() const {
  TF_RETURN_IF_ERROR(CheckCompression(op, compression));
  const auto positive = [this](const char* name, int64_t value) {
    return value > 0 ? OkStatus() : InvalidArgument(op, ": ", name, " is ", value, "; wanted at least 1");
  };
  TF_RETURN_IF_ERROR(positive("batch_size", batch.batch_size));
  TF_RETURN_IF_ERROR(positive("cycle_length", interleave.cycle_length));
  TF_RETURN_IF_ERROR(positive("block_length", interleave.block_length));
  if (block_bytes < 0) {
    return InvalidArgument(op, ": buffer_size is ", block_bytes, " bytes; wanted 0 or more");
  }
  if (batch.num_shards < 1 || batch.shard < 0 || batch.shard >= batch.num_shards) {
    return InvalidArgument(op, ": shard ", batch.shard, " of ", batch.num_shards,
                           " of the batches; wanted an index from 0 to the number of shards less 1");
  }
  return OkStatus();
}

size_t RecordPipeline::BlockBytes() const {
  if (block_bytes > 0) return block_bytes;
  return std::clamp(kAllBlockBytes / interleave.cycle_length, kMinBlockBytes, kMaxBlockBytes);
}

RecordPipeline::Ahead RecordPipeline::PlanReads(int processors, double parsers) const {
  int64_t files = 1, blocks = kBlocksAhead;
  if (!compression.empty() && processors > 1) {
    const int64_t busy = std::min<int64_t>({static_cast<int64_t>(parsers), processors, kMaxInflated});
    files = std::max<int64_t>(1, busy - interleave.cycle_length);
    const int64_t of_file = kInflatedBytes / (interleave.cycle_length + files);
    blocks = std::max<int64_t>(kBlocksAhead, of_file / static_cast<int64_t>(BlockBytes()));
  }
  return {static_cast<int>(std::min(interleave.cycle_length + files, kMaxReadThreads)), static_cast<size_t>(files),
          static_cast<size_t>(blocks)};
}

int64_t RecordPipeline::Cardinality(bool no_files) const {
  int64_t n = no_files ? 0 : kUnknownCardinality;
  for (const RecordStage& stage : stages) {
    const int64_t count = stage.arguments[0];
    if (stage.name == "repeat") {
      n = count == 0 || n == 0 ? 0 : count < 0 ? kInfiniteCardinality : n < 0 ? n : n * count;
    } else if (stage.name == "take") {
      n = count < 0 || n == kUnknownCardinality ? n : n == kInfiniteCardinality ? count : std::min(n, count);
    } else if (stage.name == "skip") {
      n = n < 0 ? n : count < 0 ? 0 : std::max<int64_t>(0, n - count);
    } else if (stage.name == "filter") {
      n = kUnknownCardinality;
    } else if (stage.name == "shard" && n >= 0) {
      n = n / count + (stage.arguments[1] < n % count ? 1 : 0);
    }
  }
  if (n < 0) return n;
  n = n / batch.batch_size + (n % batch.batch_size != 0 && !batch.drop_remainder ? 1 : 0);
  return n / batch.num_shards + (batch.shard < n % batch.num_shards ? 1 : 0);
}

std::unique_ptr<RecordBatcher> RecordPipeline::MakeBatcher(const ReadOptions* read, MakeFileNames make_names,
                                                           std::atomic<int64_t>* wanted) const {
  const InterleaveOptions options = interleave;
  MakeRecordStream make = [read, options, make_names] { return InterleaveFiles(read, options, make_names); };
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool with_repeat = stages[i].name == "shuffle" && i + 1 < stages.size() && IsPartOfShuffle(stages[i + 1]);
    make = AddStage(stages[i], with_repeat ? stages[i + 1].arguments[0] : 1, std::move(make));
    if (with_repeat) ++i;
  }
  return std::make_unique<RecordBatcher>(make(), batch, wanted);
}

}  // namespace tf_booster
