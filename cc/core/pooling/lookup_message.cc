#include "cc/core/pooling/lookup_message.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace tf_booster {
namespace {

enum Flag : int64_t { kPooled = 1, kSegments = 2, kWeights = 4, kZeroRows = 8 };

// The 7 int64s of a lookup.
struct Header {
  int64_t flags, combiner, distinct, dim, rows, places, id_bytes;
};

// Calls visit(pointer to the field of `part`, its bytes) for each array that `part` has, in the order of the message.
template <class Part, class Visit>
void VisitArrays(Part* part, int64_t flags, Visit visit) {
  PoolingSegments& s = part->segments;
  if (part->id_bytes > 0) visit(&part->ids, s.distinct * part->id_bytes);
  if ((flags & kSegments) == 0) return;
  visit(&s.row_splits, (s.rows + 1) * static_cast<int64_t>(sizeof(int32_t)));
  visit(&s.idx, part->places * static_cast<int64_t>(sizeof(int32_t)));
  if (flags & kWeights) visit(&s.weights, part->places * static_cast<int64_t>(sizeof(float)));
  if (flags & kZeroRows) visit(&s.zero_rows, s.rows * static_cast<int64_t>(sizeof(bool)));
}

int64_t FlagsOf(const LookupPart& part) {
  const PoolingSegments& s = part.segments;
  return (part.pooled ? kPooled : 0) | (part.has_segments() ? kSegments : 0) | (s.weights ? kWeights : 0) |
         (s.zero_rows ? kZeroRows : 0);
}

int64_t Aligned(int64_t bytes) { return (bytes + 7) / 8 * 8; }

int64_t HeaderBytes(int64_t n) { return static_cast<int64_t>(sizeof(int64_t) + n * sizeof(Header)); }

bool IsSane(const Header& h) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  const bool sizes = h.distinct >= 0 && h.dim >= 0 && h.rows >= 0 && h.places >= 0 && h.distinct <= most &&
                     h.dim <= most && h.rows < most && h.places <= most;
  const bool kinds = h.combiner >= 0 && h.combiner <= 2 && h.id_bytes >= 0 && h.id_bytes <= 8;
  return sizes && kinds && ((h.flags & kPooled) == 0 || (h.flags & kSegments) != 0);
}

}  // namespace

bool PoolingMovesLess(const LookupPart& part, int64_t element_bytes, bool trained) {
  const PoolingSegments& s = part.segments;
  const int64_t row = s.dim * element_bytes * (trained ? 2 : 1);
  const int64_t segments = 4 * (s.rows + 1) + part.places * (s.weights ? 8 : 4) + (s.zero_rows ? s.rows : 0);
  return segments + s.rows * row < s.distinct * row;
}

int64_t MessageBytes(const std::vector<LookupPart>& parts) {
  int64_t bytes = HeaderBytes(static_cast<int64_t>(parts.size()));
  for (LookupPart part : parts) {
    VisitArrays(&part, FlagsOf(part), [&](auto*, int64_t size) { bytes += Aligned(size); });
  }
  return bytes;
}

void WriteMessage(const std::vector<LookupPart>& parts, char* to) {
  const int64_t n = static_cast<int64_t>(parts.size());
  std::memcpy(to, &n, sizeof(n));
  char* header = to + sizeof(n);
  char* data = to + HeaderBytes(n);
  for (LookupPart part : parts) {
    const PoolingSegments& s = part.segments;
    const Header h = {FlagsOf(part), static_cast<int64_t>(s.combiner), s.distinct, s.dim, s.rows, part.places,
                      part.id_bytes};
    std::memcpy(header, &h, sizeof(h));
    header += sizeof(h);
    VisitArrays(&part, h.flags, [&](auto* array, int64_t size) {
      if (size > 0) std::memcpy(data, *array, size);
      std::memset(data + size, 0, Aligned(size) - size);
      data += Aligned(size);
    });
  }
}

bool ReadMessage(const char* from, int64_t bytes, std::vector<LookupPart>* parts) {
  parts->clear();
  int64_t n = 0;
  if (bytes < static_cast<int64_t>(sizeof(n))) return false;
  std::memcpy(&n, from, sizeof(n));
  if (n < 0 || n > bytes / static_cast<int64_t>(sizeof(Header)) || HeaderBytes(n) > bytes) return false;
  int64_t at = HeaderBytes(n);
  for (int64_t i = 0; i < n; ++i) {
    Header h;
    std::memcpy(&h, from + HeaderBytes(i), sizeof(h));
    if (!IsSane(h)) return false;
    LookupPart part;
    part.pooled = (h.flags & kPooled) != 0;
    part.segments.combiner = static_cast<Combiner>(h.combiner);
    part.segments.distinct = h.distinct;
    part.segments.dim = h.dim;
    part.segments.rows = h.rows;
    part.places = h.places;
    part.id_bytes = h.id_bytes;
    bool fits = true;
    VisitArrays(&part, h.flags, [&](auto* array, int64_t size) {
      fits = fits && size <= bytes - at;
      if (!fits) return;
      *array = reinterpret_cast<std::remove_reference_t<decltype(*array)>>(from + at);
      at += Aligned(size);
    });
    if (!fits || at > bytes) return false;
    parts->push_back(part);
  }
  return at == bytes;
}

}  // namespace tf_booster
