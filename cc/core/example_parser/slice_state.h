// What a slice remembers from record to record and from batch to batch.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SLICE_STATE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SLICE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/example_parser/example_parser.h"

namespace tf_booster::example_parser {

enum class Target : uint8_t {
  kInt64One,    // Fixed, one element.
  kInt64Fixed,  // Fixed, any number.
  kInt64Var,    // All other kinds.
  kFloatFixed,
  kFloatVar,
  kBytesFixed,
  kBytesVar,
  kNone,  // Of no feature.
};

// A feature as the scanner sees it: one cache line.
//
// An entry of the map with one packed list, or with one string, begins with a prefix of klen + 10 bytes,
//
//   0A <entry> 0A <klen> key… 12 <feature> <kind> <list> 0A <payload> | payload
//
// and while the entry is shorter than 128 bytes, each length in it is one byte and follows from the first:
// feature = entry - (klen + 4), list = feature - 2, payload = list - 2. So the prefix that is expected of a feature can
// be computed from the entry's length and compared as a few words: `head` has its first 8 bytes, `tail` its last 8,
// `middle` 8 between them, each without the entry's share, which is added to byte 1 of head and to bytes 3, 5 and 7 of
// tail.
struct alignas(64) ExpectedFeature {
  uint64_t head;
  uint64_t tail;
  uint64_t middle;
  const uint8_t* prefix;  // 0A 00 0A <klen> key… 12, and 32 bytes that may be read.
  void* out;              // kFixed: where this slice's first row goes. Otherwise the ValueArray.
  uint32_t* lengths;      // Not kFixed: values in each record of the slice.
  uint32_t elements;
  uint32_t seen;        // The record in which the feature was last found, by SliceState::epoch.
  uint32_t next;        // The feature that came after this one the last time.
  uint8_t prefix_size;  // klen + 10, or kNeverShort.
  uint8_t head_shift;   // Bits of head above the prefix's first klen + 5 bytes, which tail has.
  bool counted;         // kFixed, and no default stands in its rows yet: a record without it must be noticed.
  Target target;
};
static_assert(sizeof(ExpectedFeature) == 64);

constexpr uint8_t kNeverShort = 255;  // The key is too long, or there is none.

// Where `middle` stands in a prefix of more than 16 bytes.
inline size_t MiddleAt(size_t prefix_size) { return prefix_size > 20 ? prefix_size - 16 : 4; }

// By entry length: what to add to tail.
constexpr uint64_t kTailLengths = 0x0100010001000000;

constexpr int kMostTrust = 8;
constexpr int kLeastTrust = -16;

// Map entries of one record, as they come.
struct MapEntry {
  const uint8_t* key;
  const uint8_t* feature;
  size_t key_size;
  size_t feature_size;
};

// Of a feature list, beside its values.
struct ListOutputs {
  ValueArray<uint32_t>* step_lengths;
  uint32_t* lengths;  // By record; see ParsedSlice::lengths.
};

struct SliceState {
  explicit SliceState(std::shared_ptr<const ParserSpec> spec);

  void Empty(ParsedSlice* slice);
  // Points every feature at its outputs, for n records behind those that the slice has.
  void Start(ParsedSlice* slice, void* const* fixed_outputs, size_t first_row, size_t n);
  // To the slice: how much was written since Start.
  void Finish(ParsedSlice* slice, size_t n);

  // Begins a record; features seen before count as not seen.
  void NextRecord() {
    if (++epoch != 0) return;
    for (size_t i = 0; i < size; ++i) expected[i].seen = 0;
    epoch = 1;
  }

  // Chooses the features whose default is written to all n rows at once, and writes it.
  void WriteFrequentDefaults(size_t n);
  // Removes what row `row` appended since NextRecord.
  void TakeBack(size_t row);

  const std::shared_ptr<const ParserSpec> spec;
  const size_t size;  // Features; expected[size] stands before the first key of a record.
  std::unique_ptr<ExpectedFeature[]> expected;
  std::vector<uint8_t> prefixes;
  std::vector<uint32_t> fixed;    // The kFixedDense features.
  std::vector<uint32_t> counted;  // Those that are `counted`.
  std::vector<uint32_t> missing;  // By feature: defaults written while it was counted, in this slice or the one before.
  uint32_t slices = 0;
  size_t last_rows = 0;  // In the slice before.
  uint32_t epoch = 0;
  int trust = kMostTrust;  // Above 0: keys are expected to come as they came the last time.
  size_t num_counted = 0;  // Of the counted features, found in this record by ScanAnyEntry.
  uint64_t num_entries = 0;
  // Semantics::kFeatureLists.
  std::vector<ListOutputs> lists;  // By feature.
  size_t num_required = 0;         // Lists that each plain record has.
  // For records that are not plain.
  std::vector<MapEntry> entries;
  ValueArray<int64_t> int64s;
  ValueArray<float> floats;
  ValueArray<BytesView> bytes;
};

// The default of a kFixedDense feature into row `row` of the slice. False: it is required.
bool WriteDefault(const ParserSpec& spec, const ExpectedFeature& expected, size_t feature, size_t row);

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SLICE_STATE_H_
