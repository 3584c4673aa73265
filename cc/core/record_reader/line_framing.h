// Lines of text in memory, as TensorFlow's TextLineDataset has them: a line ends at '\n', which is no part of it, and
// every '\r' in it is left out, wherever it stands.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_LINE_FRAMING_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_LINE_FRAMING_H_

#include <cstddef>

#include "cc/core/record_reader/record_framing.h"

namespace tf_booster {

// The line that begins at data[0], of which `available` bytes are there: kRecord, its bytes moved together where a '\r'
// was among them; or kNeedMore where its end is not there, with SIZE_MAX bytes needed, since nothing tells how many.
RecordFrame NextLine(char* data, size_t available);

// What stands behind the last '\n' of a file: kRecord for a line without one; kNeedMore for nothing, or nothing but
// '\r', which is no line.
RecordFrame LastLine(char* data, size_t available);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_LINE_FRAMING_H_
