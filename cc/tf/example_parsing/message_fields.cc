#include "cc/tf/example_parsing/message_fields.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using tensorflow::errors::DataLoss;
using TfStatus = tensorflow::Status;

MessageFields::MessageFields(std::vector<MessageField> fields) : fields_(std::move(fields)) {}

TfStatus MessageFields::Read(Record message, std::vector<Values>* values) const {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data), static_cast<int>(message.size));
  std::vector<size_t> before(fields_.size());
  for (size_t f = 0; f < fields_.size(); ++f) before[f] = (*values)[f].size();
  for (uint32_t tag = input.ReadTag(); tag != 0; tag = input.ReadTag()) {
    const auto wire_type = WireFormatLite::GetTagWireType(tag);
    if (wire_type == WireFormatLite::WIRETYPE_END_GROUP) break;
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const auto found =
        std::find_if(fields_.begin(), fields_.end(), [number](const MessageField& f) { return f.number == number; });
    if (found == fields_.end()) {
      if (!WireFormatLite::SkipField(&input, tag)) return DataLoss("Failed skipping unrequested field");
      continue;
    }
    const auto f = static_cast<size_t>(found - fields_.begin());
    if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) {
        return DataLoss("CollectField: Failed skipping malformed field");
      }
      continue;
    }
    uint32_t length;
    if (!input.ReadVarint32(&length)) return DataLoss("ReadValue: Failed skipping field when counting");
    const char* value = message.data + input.CurrentPosition();
    if (!input.Skip(static_cast<int>(length))) return DataLoss("ReadValue: Failed skipping field when counting");
    Values& of_field = (*values)[f];
    if (!fields_[f].repeated) of_field.resize(before[f]);
    of_field.push_back({value, length});
  }
  if (!input.ConsumedEntireMessage()) return DataLoss("CountFields: Failed to consume entire buffer");
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
