// The stage of records that answers as tf.data's filter does behind a map that parses: a predicate of some of the
// parsed features says which records stay. Nothing else of a record is parsed here, unless the predicate drops it.
#ifndef TF_BOOSTER_CC_TF_DATASETS_RECORD_FILTER_H_
#define TF_BOOSTER_CC_TF_DATASETS_RECORD_FILTER_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/tf/datasets/element_parser.h"
#include "cc/tf/datasets/record_stream.h"
#include "tensorflow/core/data/captured_function.h"

namespace tf_booster {

// What a stage asks of each record. Shared by the streams of all iterators.
struct RecordFilter {
  std::vector<std::string> keys;  // The predicate's arguments, in the order of names; captured tensors follow.
  // Whether the predicate takes many records at once, [n, …], and answers [n]; else one, and answers a scalar.
  bool by_row = false;
  std::unique_ptr<tensorflow::data::CapturedFunction> predicate;
  std::shared_ptr<const ElementParser> parser;   // Of `keys`; null without any.
  std::shared_ptr<const ElementParser> checker;  // Of all features: errors of dropped records are the pipeline's.

  // Makes the parsers. `features`: all that are parsed, as by tf.io.parse_single_example. InvalidArgument for a key
  // that is none of them.
  tensorflow::Status SetFeatures(const ElementParser::Config& features, std::shared_ptr<const ElementParser> checker);
};

// The records of `input` that pass. A record that cannot be parsed, whether it would pass or not, and a predicate that
// fails are errors in that record's place. Some records are read ahead, in their order.
std::unique_ptr<RecordStream> FilterRecords(MakeRecordStream input, std::shared_ptr<const RecordFilter> filter);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_RECORD_FILTER_H_
