// From TensorFlow's description of the wanted features to cc/core's.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_CORE_SPEC_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_CORE_SPEC_H_

#include <memory>

#include "cc/core/example_parser/parser_spec.h"
#include "tensorflow/core/platform/status.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tf_booster {

// The features of `config` in this order: dense, sparse, ragged. Defaults are copied. For kFeatureLists, `config` is
// as FastParseSequenceExample takes it: a dense shape is a step's, variable_length says that the list may be missing.
// `spec` stays null, and the status OK, where TensorFlow must answer: two features of one name, a type that no Example
// has. InvalidArgument: a variable-length dense feature whose rows have no elements; TensorFlow divides by that number.
tensorflow::Status MakeCoreSpec(const tensorflow::example::FastParseExampleConfig& config,
                                example_parser::Semantics semantics,
                                std::shared_ptr<const example_parser::ParserSpec>* spec);

tensorflow::DataType ToDataType(example_parser::ValueType type);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_CORE_SPEC_H_
