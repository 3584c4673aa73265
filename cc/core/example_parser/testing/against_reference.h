// Parses records at every level that runs here, and compares all that comes out with the reference.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_AGAINST_REFERENCE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_AGAINST_REFERENCE_H_

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "cc/core/example_parser/reference/reference_parser.h"

namespace tf_booster::example_parser::testing {

// Memory of exactly so many bytes, so that AddressSanitizer sees a read past the end.
class ExactCopy {
 public:
  explicit ExactCopy(const std::string& bytes)
      : data_(static_cast<char*>(std::malloc(bytes.size()))), size_(bytes.size()) {
    if (size_ > 0) std::memcpy(data_, bytes.data(), size_);
  }
  ExactCopy(ExactCopy&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  ~ExactCopy() { std::free(data_); }
  Record record() const { return {data_, size_}; }

 private:
  char* data_;
  size_t size_;
};

// Where fixed rows go, with a canary behind the last one.
class FixedOutputs {
 public:
  FixedOutputs(const ParserSpec& spec, size_t rows) {
    for (const FeatureSpec& feature : spec.features()) {
      const bool fixed = feature.kind == FeatureKind::kFixedDense && feature.type != ValueType::kBytes;
      const size_t bytes = fixed ? rows * feature.elements * (feature.type == ValueType::kInt64 ? 8 : 4) : 0;
      memory_.emplace_back(bytes + 8, '\x5a');
      pointers_.push_back(fixed ? memory_.back().data() : nullptr);
    }
    for (size_t f = 0; f < pointers_.size(); ++f) {
      if (pointers_[f] != nullptr) pointers_[f] = memory_[f].data();  // Behind all reallocations.
    }
  }
  void* const* pointers() const { return pointers_.data(); }
  const char* feature(size_t f) const { return memory_[f].data(); }
  bool CanaryLives(size_t f) const { return memory_[f].compare(memory_[f].size() - 8, 8, std::string(8, '\x5a')) == 0; }

 private:
  std::vector<std::string> memory_;
  std::vector<void*> pointers_;
};

inline std::string Describe(ParseErrorKind kind, int32_t feature, size_t record, ValueType type, size_t count) {
  std::ostringstream out;
  out << "error " << static_cast<int>(kind) << " record " << record << " feature " << feature;
  if (kind == ParseErrorKind::kTypeMismatch) out << " type " << static_cast<int>(type);
  if (kind == ParseErrorKind::kWrongCount || kind == ParseErrorKind::kNotMultiple) out << " count " << count;
  return out.str();
}

// "" or the first difference between the parser, on records as rows first_row…, and the reference.
inline std::string Compare(const ExampleParser& parser, const std::vector<std::string>& serialized, size_t first_row,
                           ParsedSlice* slice) {
  const ParserSpec& spec = parser.spec();
  std::vector<ExactCopy> copies;
  std::vector<Record> records;
  for (const std::string& bytes : serialized) copies.emplace_back(bytes);
  for (const ExactCopy& copy : copies) records.push_back(copy.record());
  std::vector<reference::Outcome> wanted;
  uint64_t num_entries = 0;
  std::string wanted_error;
  for (size_t i = 0; i < serialized.size() && wanted_error.empty(); ++i) {
    wanted.push_back(reference::ParseRecord(spec, serialized[i]));
    const reference::Outcome& o = wanted.back();
    num_entries += o.num_entries;
    if (o.error != ParseErrorKind::kNone)
      wanted_error = Describe(o.error, o.feature, first_row + i, o.found_type, o.found_count);
  }

  const FixedOutputs outputs(spec, first_row + serialized.size());
  ParseError error;
  const bool ok = parser.Parse(records.data(), records.size(), first_row, outputs.pointers(), slice, &error);
  const std::string found_error =
      ok ? "" : Describe(error.kind, error.feature, error.record, error.found_type, error.found_count);
  if (found_error != wanted_error) return "found '" + found_error + "', wanted '" + wanted_error + "'";
  for (size_t f = 0; f < spec.size(); ++f) {
    if (!outputs.CanaryLives(f)) return "feature " + std::to_string(f) + ": written past the last row";
  }
  if (!ok) return "";
  if (slice->num_records() != serialized.size()) return "number of records";
  if (slice->num_entries() != num_entries) return "number of entries";

  for (size_t f = 0; f < spec.size(); ++f) {
    const FeatureSpec& feature = spec.features()[f];
    const bool fixed = feature.kind == FeatureKind::kFixedDense;
    const std::string where = "feature " + std::to_string(f) + " row ";
    size_t at = 0;
    if (fixed != (slice->lengths(f).size() == 0) && !serialized.empty()) return where + "lengths";
    for (size_t i = 0; i < serialized.size(); ++i) {
      const reference::Values& w = wanted[i].values[f];
      const size_t count = feature.type == ValueType::kInt64   ? w.int64s.size()
                           : feature.type == ValueType::kFloat ? w.floats.size()
                                                               : w.bytes.size();
      if (!fixed && slice->lengths(f)[i] != count) {
        return where + std::to_string(i) + ": " + std::to_string(slice->lengths(f)[i]) + " values, wanted " +
               std::to_string(count);
      }
      for (size_t k = 0; k < count; ++k) {
        const size_t row = (first_row + i) * feature.elements + k;
        bool same;
        if (feature.type == ValueType::kInt64) {
          int64_t value;
          std::memcpy(&value,
                      fixed ? outputs.feature(f) + row * 8 : reinterpret_cast<const char*>(&slice->int64s(f)[at + k]),
                      8);
          same = value == w.int64s[k];
        } else if (feature.type == ValueType::kFloat) {
          const char* value =
              fixed ? outputs.feature(f) + row * 4 : reinterpret_cast<const char*>(&slice->floats(f)[at + k]);
          same = std::memcmp(value, &w.floats[k], 4) == 0;  // NaNs too.
        } else {
          same = slice->bytes(f)[at + k].view() == w.bytes[k];
        }
        if (!same) return where + std::to_string(i) + ": value " + std::to_string(k);
      }
      at += count;
    }
    const size_t stored = feature.type == ValueType::kInt64   ? slice->int64s(f).size()
                          : feature.type == ValueType::kFloat ? slice->floats(f).size()
                                                              : slice->bytes(f).size();
    if (stored != (fixed && feature.type != ValueType::kBytes ? 0 : at)) return where + "all: number of values stored";
  }
  return "";
}

// The same at every level; "" or level and difference.
inline std::string CompareLevels(const std::shared_ptr<const ParserSpec>& spec,
                                 const std::vector<std::string>& serialized, size_t first_row = 0) {
  for (SimdLevel level : RunnableSimdLevels()) {
    ParsedSlice slice;
    const ExampleParser parser(spec, level);
    // Twice: the second time the order of keys and the memory are those of the first.
    for (int time = 0; time < 2; ++time) {
      const std::string difference = Compare(parser, serialized, first_row, &slice);
      if (!difference.empty())
        return std::string(SimdLevelName(level)) + ", time " + std::to_string(time) + ": " + difference;
    }
  }
  return "";
}

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_AGAINST_REFERENCE_H_
