// What cc/core says of a broken record, in the words of TensorFlow's own parser: programs and people know them.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_PARSE_ERRORS_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_PARSE_ERRORS_H_

#include <string>

#include "cc/core/example_parser/example_parser.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {

// Both of these, for ParseErrorKind::kNotPlain: Unimplemented, which no caller hands on.

// A batch: names the record by `name` ("<unknown>" where there are no names) and its row. TensorFlow's texts, but for
// two that name no record there: a record that is no Example (TensorFlow prints the record instead, which Python then
// cannot decode), and an unsupported type. `count` is what TensorFlow would say of kNotMultiple.
tensorflow::Status BatchError(const example_parser::ParseError& error,
                              const tensorflow::example::FastParseExampleConfig& config, const std::string& name,
                              size_t record_bytes, size_t count);

// One record by itself: TensorFlow names the feature only, and does not tell apart what is wrong with its list.
tensorflow::Status SingleError(const example_parser::ParseError& error,
                               const tensorflow::example::FastParseExampleConfig& config, size_t record_bytes);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_PARSE_ERRORS_H_
