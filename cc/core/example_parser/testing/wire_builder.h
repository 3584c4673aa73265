// Builds serialized tf.train.Examples, right ones and wrong ones, for tests and benchmarks.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_WIRE_BUILDER_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_WIRE_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser::testing {

// `padding`: bytes 0x80 in front of the last one, which a reader must take.
inline std::string Varint(uint64_t value, int padding = 0) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  if (padding == 0) return out + static_cast<char>(value);
  out.push_back(static_cast<char>(value | 0x80));
  return out + std::string(padding - 1, '\x80') + '\0';
}

// A length-delimited field; `tag` is its first byte.
inline std::string Field(uint8_t tag, const std::string& content) {
  return static_cast<char>(tag) + Varint(content.size()) + content;
}

inline std::string PackedVarints(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t value : values) out += Varint(static_cast<uint64_t>(value));
  return out;
}
inline std::string PackedFloats(const std::vector<float>& values) {
  std::string out(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Serialized tf.train.Features. Empty lists have no packed field, as Protocol Buffers writes them.
inline std::string Int64Feature(const std::vector<int64_t>& values) {
  return Field(kLengthTag3, values.empty() ? "" : Field(kLengthTag1, PackedVarints(values)));
}
inline std::string FloatFeature(const std::vector<float>& values) {
  return Field(kLengthTag2, values.empty() ? "" : Field(kLengthTag1, PackedFloats(values)));
}
inline std::string BytesFeature(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += Field(kLengthTag1, value);
  return Field(kLengthTag1, list);
}
inline std::string TaggedInt64Feature(const std::vector<int64_t>& values) {
  std::string list;
  for (int64_t value : values) list += static_cast<char>(kVarintTag1) + Varint(static_cast<uint64_t>(value));
  return Field(kLengthTag3, list);
}
inline std::string TaggedFloatFeature(const std::vector<float>& values) {
  std::string list;
  for (float value : values) list += static_cast<char>(kFixed32Tag1) + PackedFloats({value});
  return Field(kLengthTag2, list);
}

// A map entry, and an Example of entries.
inline std::string Entry(const std::string& key, const std::string& feature) {
  return Field(kLengthTag1, Field(kLengthTag1, key) + Field(kLengthTag2, feature));
}
inline std::string Example(const std::vector<std::string>& entries) {
  std::string features;
  for (const std::string& entry : entries) features += entry;
  return Field(kLengthTag1, features);
}

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_WIRE_BUILDER_H_
