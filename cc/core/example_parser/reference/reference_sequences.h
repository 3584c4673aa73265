// What a SequenceExample means to TensorFlow's FastParseSequenceExample, said once more without a thought for speed.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_REFERENCE_SEQUENCES_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_REFERENCE_SEQUENCES_H_

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "cc/core/example_parser/reference/coded_stream.h"
#include "cc/core/example_parser/reference/reference_parser.h"

namespace tf_booster::example_parser::reference {

struct SequenceOutcome {
  bool accepted = false;
  bool long_string = false;            // A string's length points past its list, and TensorFlow gets as far as that.
  std::vector<Values> context, lists;  // By feature.
  std::vector<std::vector<size_t>> step_lengths;  // By list.
};

using LastEntries = std::map<std::string, std::string_view>;

inline bool ReadLastEntries(CodedStream* stream, LastEntries* entries) {
  const std::optional<uint32_t> length = stream->ReadVarint32();
  if (!length) return false;
  const int64_t map_limit = stream->PushLimit(*length);
  while (!stream->ExpectAtEnd()) {
    if (!stream->ExpectTag(10)) return false;
    const std::optional<uint32_t> entry_length = stream->ReadVarint32();
    if (!entry_length) return false;
    const int64_t entry_limit = stream->PushLimit(*entry_length);
    if (!stream->ExpectTag(10)) return false;
    const std::optional<std::string_view> key = stream->ReadString();
    if (!key || !stream->ExpectTag(18)) return false;
    const std::optional<std::string_view> value = stream->ReadString();
    if (!value || !stream->ExpectAtEnd()) return false;
    stream->PopLimit(entry_limit);
    (*entries)[std::string(*key)] = *value;
  }
  stream->PopLimit(map_limit);
  return true;
}

// One list at the stream, of any form. Nothing: malformed, of another type, or with a string that is too long.
inline std::optional<size_t> ReadOneList(CodedStream* stream, ValueType type, Values* values, bool* long_string) {
  if (!stream->ExpectTag(static_cast<uint8_t>(8 * static_cast<int>(type) + 2))) return std::nullopt;
  const std::optional<uint32_t> length = stream->ReadVarint32();
  if (!length) return std::nullopt;
  if (*length == 0) return 0;
  const int64_t limit = stream->PushLimit(*length);
  size_t count = 0;
  if (type == ValueType::kBytes) {
    for (; !stream->ExpectAtEnd(); ++count) {
      if (!stream->ExpectTag(10)) return std::nullopt;
      const std::optional<uint32_t> size = stream->ReadVarint32();
      if (!size) return std::nullopt;
      const std::optional<std::string_view> value = stream->ReadRaw(*size);
      if (!value) {
        *long_string = true;
        return std::nullopt;
      }
      values->bytes.emplace_back(*value);
    }
    stream->PopLimit(limit);
    return count;
  }
  const uint8_t tag = type == ValueType::kFloat ? 13 : 8;
  const bool packed = stream->Peek() == 10;
  if (!packed && stream->Peek() != tag) return std::nullopt;
  if (packed) {
    stream->ExpectTag(10);
    const std::optional<uint32_t> packed_length = stream->ReadVarint32();
    if (!packed_length) return std::nullopt;
    stream->PushLimit(*packed_length);  // PopLimit, below, goes back to the limit of the list's parent.
  }
  for (; !stream->ExpectAtEnd(); ++count) {
    if (!packed && !stream->ExpectTag(tag)) return std::nullopt;
    if (type == ValueType::kFloat) {
      const std::optional<std::string_view> raw = stream->ReadRaw(4);
      if (!raw) return std::nullopt;
      values->floats.emplace_back();
      std::memcpy(&values->floats.back(), raw->data(), 4);
    } else {
      const std::optional<uint64_t> value = stream->ReadVarint64();
      if (!value) return std::nullopt;
      values->int64s.push_back(static_cast<int64_t>(*value));
    }
  }
  stream->PopLimit(limit);
  return count;
}

// False: refused. Goes on behind a refused feature no further: `long_string` is of this list alone.
inline bool ReadSteps(std::string_view list, ValueType type, Values* values, std::vector<size_t>* steps,
                      bool* long_string) {
  CodedStream stream(list);
  while (!stream.ExpectAtEnd()) {
    if (!stream.ExpectTag(10)) return false;
    const std::optional<uint32_t> length = stream.ReadVarint32();
    if (!length || *length == 1) return false;
    size_t count = 0;
    if (*length == 2) {
      if (!stream.ExpectTag(static_cast<uint8_t>(8 * static_cast<int>(type) + 2))) return false;
      if (stream.ReadVarint32() != 0u) return false;
    } else if (*length > 2) {
      const int64_t limit = stream.PushLimit(*length);
      const std::optional<size_t> found = ReadOneList(&stream, type, values, long_string);
      if (!found) return false;
      count = *found;
      stream.PopLimit(limit);
    }
    steps->push_back(count);
  }
  return true;
}

inline bool ReadSequenceExample(std::string_view record, LastEntries* context, LastEntries* lists) {
  CodedStream stream(record);
  while (!stream.ExpectAtEnd()) {
    LastEntries* entries = stream.Peek() == 10 ? context : stream.Peek() == 18 ? lists : nullptr;
    if (entries == nullptr) {
      if (!SkipUnknown(&stream)) return false;
      continue;
    }
    stream.ExpectTag(*stream.Peek());
    if (!ReadLastEntries(&stream, entries)) return false;
  }
  return true;
}

inline SequenceOutcome ParseSequence(const ParserSpec& context_spec, const ParserSpec& lists_spec,
                                     std::string_view record) {
  SequenceOutcome outcome;
  outcome.context.resize(context_spec.size());
  outcome.lists.resize(lists_spec.size());
  outcome.step_lengths.resize(lists_spec.size());
  LastEntries context, lists;
  if (!ReadSequenceExample(record, &context, &lists)) return outcome;
  bool accepted = true;
  for (size_t f = 0; f < context_spec.size(); ++f) {
    const FeatureSpec& feature = context_spec.features()[f];
    const auto entry = context.find(feature.name);
    const bool fixed = feature.kind == FeatureKind::kFixedDense;
    if (entry == context.end()) {
      accepted &= !fixed || !feature.required;
      if (fixed) outcome.context[f] = {feature.default_int64, feature.default_float, feature.default_bytes};
      continue;
    }
    size_t count = 0;
    if (!entry->second.empty()) {
      CodedStream stream(entry->second);
      const std::optional<size_t> found = ReadOneList(&stream, feature.type, &outcome.context[f], &outcome.long_string);
      accepted &= found.has_value();
      count = found.value_or(0);
    }
    accepted &= !fixed || count == feature.elements;
  }
  for (size_t f = 0; f < lists_spec.size(); ++f) {
    const FeatureSpec& feature = lists_spec.features()[f];
    const auto entry = lists.find(feature.name);
    if (entry == lists.end()) {
      accepted &= feature.kind != FeatureKind::kVarLenDense || !feature.required;
      continue;
    }
    accepted &=
        ReadSteps(entry->second, feature.type, &outcome.lists[f], &outcome.step_lengths[f], &outcome.long_string);
    for (const size_t count : outcome.step_lengths[f]) {
      accepted &= feature.kind != FeatureKind::kVarLenDense || count == feature.elements;
    }
  }
  outcome.accepted = accepted;
  return outcome;
}

}  // namespace tf_booster::example_parser::reference

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_REFERENCE_SEQUENCES_H_
