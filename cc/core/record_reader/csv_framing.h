// Records of comma-separated values in memory, as TensorFlow's CsvDataset has them: a record ends at '\n', '\r' or
// "\r\n", which are no part of it, but not within a field in quotes.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_CSV_FRAMING_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_CSV_FRAMING_H_

#include <cstddef>

#include "cc/core/record_reader/record_framing.h"

namespace tf_booster {

struct CsvFraming {
  char delimiter = ',';
  bool quotes = true;  // Whether a field that begins with '"' ends at the next one that no other '"' follows.
};

// The record that begins at data[0], of which `available` bytes are there: kRecord; or kNeedMore where its end is not
// there, with SIZE_MAX bytes needed, since nothing tells how many. A quote that has no business where it stands does
// not change where its record ends: whoever splits the record says what is wrong with it.
RecordFrame NextCsvRecord(const char* data, size_t available, const CsvFraming& framing);

// What is left where NextCsvRecord has found no end and no more bytes will come: kRecord; or kNeedMore for nothing.
RecordFrame LastCsvRecord(const char* data, size_t available, const CsvFraming& framing);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_CSV_FRAMING_H_
