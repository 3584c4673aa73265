// Any record, plain or not, as TensorFlow's FastParseExample reads it: messages that repeat, fields that it does not
// know, keys that come twice, lists in pieces, lengths that lie; and the error that it reports.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_EXACT_RECORD_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_EXACT_RECORD_H_

#include "cc/core/example_parser/slice_state.h"

namespace tf_booster::example_parser {

// Parses into row `row` of the slice. False: `error` says why (its record is left to the caller).
bool ParseExactly(SliceState& state, SimdLevel level, const Record& record, size_t row, ParseError* error);

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_EXACT_RECORD_H_
