// Parses serialized tf.train.Example records as TensorFlow's FastParseExample does: same values, same records refused.
//
//   std::shared_ptr<const ParserSpec> spec;           // Once.
//   TFB_RETURN_IF_ERROR(ParserSpec::Make(features, Semantics::kBatch, &spec));
//   ExampleParser parser(spec);                       // Once; shared by all threads.
//   ParsedSlice slice;                                // One a thread, kept from batch to batch: it remembers the order
//                                                     // of keys, and its memory.
//   void* fixed[] = {labels, ids, nullptr};           // By feature: where row 0 of the batch lies.
//   ParseError error;
//   if (!parser.Parse(records, n, first_row, fixed, &slice, &error)) …
//
// Slices of a few hundred records are best: what a slice holds is then copied out while it is in the cache (26 sparse
// lists of 20 ids: 1.6 times as fast in slices of 256 as in one of 2,048).
//
// Several threads may parse slices of one batch at once, each with a ParsedSlice of its own; the caller joins them in
// order, and of several errors reports the one with the lowest record.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_EXAMPLE_PARSER_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/base/cpu_features.h"
#include "cc/core/base/status.h"
#include "cc/core/example_parser/parser_spec.h"
#include "cc/core/example_parser/value_array.h"

namespace tf_booster::example_parser {

// One serialized Example, or FeatureLists. Need not be aligned; nothing beyond its last byte is read.
struct Record {
  const char* data;
  size_t size;
};

enum class ParseErrorKind : uint8_t {
  kNone,
  kBadRecord,        // Not the wire format of an Example. No feature. TensorFlow: "Could not parse example input".
  kUnsupportedType,  // A known feature's kind is none of bytes, float, int64. TensorFlow: "Unsupported datatype."
  kTypeMismatch,     // `found_type` against the feature's type.
  kBadList,          // The feature's list is malformed, or has more strings than kFixedDense has room for.
                     // TensorFlow: "Can't parse serialized Example."
  kWrongCount,       // kFixedDense: `found_count` values (floats: as the list's length says).
  kNotMultiple,      // kVarLenDense: `found_count` values in this record, no multiple of the stride.
  kMissing,          // kFixedDense, required and not there.
  kNotPlain,         // Semantics::kContext and kFeatureLists: right or wrong, not by this parser to say. No feature.
};

// The error that TensorFlow reports for the same records: of the first record in error, and in it of the last entry in
// error; missing features come after. All are InvalidArgument.
struct ParseError {
  ParseErrorKind kind = ParseErrorKind::kNone;
  size_t record = 0;     // The row: first_row + index into records.
  int32_t feature = -1;  // Into spec.features().
  ValueType found_type = ValueType::kInt64;
  size_t found_count = 0;
};

// A text with record, feature, found and wanted, for callers that do not need TensorFlow's own.
Status ToStatus(const ParseError& error, const ParserSpec& spec);

struct SliceState;  // What a slice remembers: keys' order, where each feature's next value goes.

// What Parse writes, apart from fixed dense numbers: by feature, the values of all records one after another. Views
// point into the records (or into the spec, for defaults) and live as long as they.
class ParsedSlice {
 public:
  ParsedSlice();
  ~ParsedSlice();
  ParsedSlice(ParsedSlice&&) noexcept;
  ParsedSlice& operator=(ParsedSlice&&) noexcept;

  size_t num_records() const { return num_records_; }
  // Empty for features of another type, and for fixed dense numbers, which lie in the caller's memory. Fixed dense
  // strings are here: num_records × elements.
  const ValueArray<int64_t>& int64s(size_t feature) const { return columns_[feature].int64s; }
  const ValueArray<float>& floats(size_t feature) const { return columns_[feature].floats; }
  const ValueArray<BytesView>& bytes(size_t feature) const { return columns_[feature].bytes; }
  // Values in each record, num_records of them. Empty for kFixedDense. Of feature lists that are sparse or ragged, the
  // steps in each record.
  const ValueArray<uint32_t>& lengths(size_t feature) const { return columns_[feature].lengths; }
  // Values in each step of all records' feature lists. Empty for other features.
  const ValueArray<uint32_t>& step_lengths(size_t feature) const { return columns_[feature].step_lengths; }
  // Lets values go to memory of the caller, from an empty slice on (see ValueArray::Lend).
  void LendInt64s(size_t feature, int64_t* data, size_t capacity) { columns_[feature].int64s.Lend(data, capacity); }
  void LendFloats(size_t feature, float* data, size_t capacity) { columns_[feature].floats.Lend(data, capacity); }
  // The values' memory itself (see ValueArray::Release), for callers that would otherwise copy them.
  int64_t* ReleaseInt64s(size_t feature) { return columns_[feature].int64s.Release(); }
  float* ReleaseFloats(size_t feature) { return columns_[feature].floats.Release(); }
  // Map entries seen in all records, known or not, repeated or not: tf.data's statistics want it.
  uint64_t num_entries() const { return num_entries_; }

 private:
  friend class ExampleParser;
  friend struct SliceState;
  struct Column {
    ValueArray<int64_t> int64s;
    ValueArray<float> floats;
    ValueArray<BytesView> bytes;
    ValueArray<uint32_t> lengths;
    ValueArray<uint32_t> step_lengths;
  };

  std::vector<Column> columns_;
  size_t num_records_ = 0;
  uint64_t num_entries_ = 0;
  std::unique_ptr<SliceState> state_;
};

class ExampleParser {
 public:
  // `level` must run on this machine (see Runs).
  explicit ExampleParser(std::shared_ptr<const ParserSpec> spec, SimdLevel level = BestSimdLevel());

  const ParserSpec& spec() const { return *spec_; }
  SimdLevel level() const { return level_; }

  // Parses records[0, n) into rows [first_row, first_row + n). `fixed_outputs[f]`, for a kFixedDense feature f of int64
  // or float, is where row 0 of the batch begins; rows have `elements` values and no gaps. Other entries are not read.
  // Of `slice`, contents are replaced and memory is kept; a slice that served another parser is set up anew. False:
  // `error` says why, at the first record in error; what was written is undefined. Memory: values that are there, never
  // what a length field says. Throws std::bad_alloc. Threads: any number at once, with different slices and rows.
  bool Parse(const Record* records, size_t n, size_t first_row, void* const* fixed_outputs, ParsedSlice* slice,
             ParseError* error) const;

  // Parse in two steps: Empty, and Append for each run of records that follows in the batch. Between the two, memory
  // can be lent.
  void Empty(ParsedSlice* slice) const;
  bool Append(const Record* records, size_t n, size_t first_row, void* const* fixed_outputs, ParsedSlice* slice,
              ParseError* error) const;

 private:
  std::shared_ptr<const ParserSpec> spec_;
  SimdLevel level_;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_EXAMPLE_PARSER_H_
