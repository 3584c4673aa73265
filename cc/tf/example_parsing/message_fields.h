// Fields of serialized messages whose values are bytes, read as DecodeProtoV2 reads them: the same values and errors.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_MESSAGE_FIELDS_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_MESSAGE_FIELDS_H_

#include <cstdint>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

struct MessageField {
  int32_t number;  // On the wire.
  bool repeated;   // Of one that is not, the last value counts.
};

class MessageFields {
 public:
  using Record = example_parser::Record;
  using Values = std::vector<Record>;  // Views into the message.

  // At least one field; no two have the same number.
  explicit MessageFields(std::vector<MessageField> fields);

  size_t size() const { return fields_.size(); }

  // Appends each field's values to `values`, by field. DataLoss: not a message; then some may be there.
  tensorflow::Status Read(Record message, std::vector<Values>* values) const;

 private:
  std::vector<MessageField> fields_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_MESSAGE_FIELDS_H_
