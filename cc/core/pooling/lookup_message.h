// What is sent of a step's lookups to the process where their rows are: one block of bytes for all of them.
//
//   int64 number of lookups, then for each 7 int64s (see lookup_message.cc), then ids and segments, each from a
//   multiple of 8 on.
//
// A lookup is pooled over there where that moves fewer bytes than its rows: only then its segments travel.
#ifndef TF_BOOSTER_CC_CORE_POOLING_LOOKUP_MESSAGE_H_
#define TF_BOOSTER_CC_CORE_POOLING_LOOKUP_MESSAGE_H_

#include <cstdint>
#include <vector>

#include "cc/core/pooling/segment_pooling.h"

namespace tf_booster {

struct LookupPart {
  bool pooled = false;        // Whether its rows are summed up where they are.
  PoolingSegments segments;   // distinct and dim always; the rest where row_splits is not null.
  int64_t places = 0;         // Of segments.idx.
  const void* ids = nullptr;  // [segments.distinct], or null.
  int64_t id_bytes = 0;       // Of one id.

  bool has_segments() const { return segments.row_splits != nullptr; }
  // Rows of what comes back, and of the gradients that follow: a row a batch row, or a row an id.
  int64_t moved_rows() const { return pooled ? segments.rows : segments.distinct; }
};

// Whether pooling `part`, which has segments, where its rows are moves fewer bytes than its rows do. With `trained`
// each row moves twice, there and back.
bool PoolingMovesLess(const LookupPart& part, int64_t element_bytes, bool trained);

int64_t MessageBytes(const std::vector<LookupPart>& parts);

// `to` has MessageBytes(parts) bytes and is a multiple of 8.
void WriteMessage(const std::vector<LookupPart>& parts, char* to);

// Parts that point into `from`, which is a multiple of 8. False: not a message of WriteMessage's; what idx and
// row_splits hold is not looked at.
bool ReadMessage(const char* from, int64_t bytes, std::vector<LookupPart>* parts);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_LOOKUP_MESSAGE_H_
