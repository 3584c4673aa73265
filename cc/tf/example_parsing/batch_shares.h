// How a batch of records is shared among threads: whether at all, and in which pieces.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_SHARES_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_SHARES_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cc/core/base/cut_by_bytes.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/example_batch/batch_plan.h"
#include "cc/core/example_batch/help_choice.h"
#include "cc/core/example_batch/parse_cost.h"
#include "cc/core/example_parser/example_parser.h"
#include "cc/tf/kernels/helped_parallel_for.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/platform/tstring.h"

namespace tf_booster {

// One for each parser. Any thread may call.
class BatchShares {
 public:
  // Calls body(plan, parallel_for), which parses the batch. Records are Records or tstrings. `workers` may be null.
  template <class Record, class Body>
  tensorflow::Status Run(absl::Span<const Record> records, tensorflow::thread::ThreadPool* workers, Body body) {
    size_t bytes = 0;
    for (const Record& record : records) bytes += SizeOf(record);
    SerialFor serial;
    if (workers == nullptr) return body(Cut(records, bytes, 1), serial);
    HelpedParallelFor helped(workers);
    const size_t threads = Threads(records.size(), bytes, helped.num_threads());
    if (threads == 1) return body(Cut(records, bytes, 1), helped);
    const bool help = help_.Next();
    const auto start = std::chrono::steady_clock::now();
    ParallelFor& parallel_for = help ? static_cast<ParallelFor&>(helped) : serial;
    TF_RETURN_IF_ERROR(body(Cut(records, bytes, help ? threads : 1), parallel_for));
    help_.Add(help, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count(), bytes);
    return tensorflow::OkStatus();
  }

  // A batch of `bytes` bytes was parsed in `ns`, those of all threads.
  void AddCost(int64_t ns, size_t bytes) { cost_.Add(ns, bytes); }

 private:
  static size_t SizeOf(const example_parser::Record& record) { return record.size; }
  static size_t SizeOf(const tensorflow::tstring& record) { return record.size(); }

  size_t Threads(size_t records, size_t bytes, size_t most) const;
  size_t Pieces(double ns, size_t threads) const;

  template <class Record>
  BatchPlan Cut(absl::Span<const Record> records, size_t bytes, size_t threads) const {
    const double ns = static_cast<double>(bytes) * cost_.ns_per_byte();
    const auto size_of = [&](size_t i) { return SizeOf(records[i]); };
    return {threads, CutByBytes(records.size(), bytes, Pieces(ns, threads), size_of), bytes, ns};
  }

  ParseCost cost_;
  HelpChoice help_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_SHARES_H_
