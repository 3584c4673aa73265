// The scanner of each instruction set, behind one table. scanner.inc is its text; levels/ has the blocks it is made of.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/cpu_features.h"
#include "cc/core/example_parser/slice_state.h"

namespace tf_booster::example_parser {

struct ScanFunctions {
  // Parses records[begin, n) into the rows of the same numbers, up to the first that is not plain: anything but one map
  // of entries in the usual form, each known key once, each list right. Returns its number, or n. Of that record
  // nothing remains written but fixed rows.
  size_t (*scan_records)(SliceState& state, const Record* records, size_t begin, size_t n);

  // The same for the feature lists of SequenceExamples. Of the record that is not plain anything may remain written.
  size_t (*scan_feature_lists)(SliceState& state, const Record* records, size_t begin, size_t n);

  // Decodes the varints that fill [p, p + size). Memory up to `readable` may be read, at or past p + size.
  // False: a varint is longer than 10 bytes or cut off, or there are more than `capacity` of them.
  bool (*decode_varints)(const uint8_t* p, size_t size, const uint8_t* readable, int64_t* out, size_t capacity,
                         size_t* count);
};

extern const ScanFunctions kScalarScan, kSse41Scan, kAvx2NoBmi2Scan, kAvx2Scan, kAvx512Scan;

inline const ScanFunctions& ScanFor(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return kAvx512Scan;
    case SimdLevel::kAvx2:
      return kAvx2Scan;
    case SimdLevel::kAvx2NoBmi2:
      return kAvx2NoBmi2Scan;
    case SimdLevel::kSse41:
      return kSse41Scan;
    default:
      return kScalarScan;
  }
}

// The varints that end in [p, p + size).
size_t CountVarints(const uint8_t* p, size_t size);

// Room for the varints of `size` bytes at p: no more than there are bytes; of long runs, as many as end there.
inline size_t VarintRoom(const uint8_t* p, size_t size) {
  // Counting costs 0.1 ns a byte; up to here eight bytes of room for each byte are no waste worth that.
  constexpr size_t kWorthCounting = 4096;
  return size <= kWorthCounting ? size : CountVarints(p, size);
}

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_H_
