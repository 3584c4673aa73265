// How TensorFlow's FastParseExample cuts a batch into minibatches. Of no use but for one of its error messages.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_MINIBATCHES_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_MINIBATCHES_H_

#include <algorithm>
#include <cstddef>

#include "absl/types/span.h"
#include "cc/core/example_parser/example_parser.h"

namespace tf_booster {

// The first row of the minibatch that holds `row`: they are of 50 kB, 8 to 64 of them, and equal in records.
inline size_t StockMinibatchBegin(absl::Span<const example_parser::Record> records, size_t row) {
  size_t filled = 0, bytes = 0;
  for (const auto& record : records) {
    if (bytes == 0) ++filled;
    bytes += record.size + 1;
    if (bytes > 50000) bytes = 0;
  }
  const size_t n = std::max(std::min<size_t>(8, records.size()), std::min<size_t>(64, filled));
  size_t minibatch = 0;
  while (records.size() * (minibatch + 1) / n <= row) ++minibatch;
  return records.size() * minibatch / n;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_MINIBATCHES_H_
