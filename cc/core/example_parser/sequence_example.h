// The outermost messages of a serialized tf.train.SequenceExample: its context, a map as an Example has it, and its
// feature lists. Each is then parsed by an ExampleParser of its own, of Semantics::kContext and kFeatureLists.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SEQUENCE_EXAMPLE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SEQUENCE_EXAMPLE_H_

#include "cc/core/example_parser/example_parser.h"

namespace tf_booster::example_parser {

// `context`: the whole field, which reads as an Example; where there is none, an Example without features. `lists`: the
// FeatureLists. False: not plain. Plain is each of them once or not at all, in any order, and nothing else.
bool SplitSequenceExample(const Record& record, Record* context, Record* lists);

// Where TensorFlow's FastParseSequenceExample would crash, or write where it must not.
struct SequenceHazard {
  enum class Kind : uint8_t {
    kNone,
    kTooLong,     // The record has 2^31 bytes or more; TensorFlow counts them in an int.
    kLongString,  // Of `feature`, a string's length points past its list. TensorFlow skips it when it counts values,
                  // and then finds another number.
  };
  Kind kind = Kind::kNone;
  bool in_context = false;
  size_t feature = 0;  // Into the features of the context's spec, or of the lists'.
};

// A record with a hazard is refused by TensorFlow in any case, if it lives. Specs: the names and types count. For odd
// records, as slow as a reader with a map of strings.
SequenceHazard FindHazard(const Record& record, const ParserSpec& context, const ParserSpec& lists);

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SEQUENCE_EXAMPLE_H_
