#include "cc/core/record_reader/csv_framing.h"

#include <cstdint>
#include <cstring>

namespace tf_booster {
namespace {

constexpr RecordFrame kNoRecord = {RecordFrame::kNeedMore, 0, 0, 0, SIZE_MAX};

bool IsEnd(char c) { return c == '\n' || c == '\r'; }

// The first `c` of [begin, end), or `end`.
const char* Find(const char* begin, const char* end, char c) {
  const auto* const found = begin == end ? nullptr : static_cast<const char*>(std::memchr(begin, c, end - begin));
  return found == nullptr ? end : found;
}

// Behind the quote that ends a field, of which `at` is behind the first quote; `end` if that is not there.
const char* BehindQuoted(const char* at, const char* end, char delimiter) {
  while ((at = Find(at, end, '"')) != end) {
    if (++at == end || *at == delimiter || IsEnd(*at)) return at;
    ++at;  // A '"' that is one of the field, or what should not stand here.
  }
  return end;
}

// Where the record that begins at `at` ends: at its line end, or at `end`.
const char* EndOf(const char* at, const char* end, const CsvFraming& framing) {
  while (at != end) {
    if (framing.quotes && *at == '"') at = BehindQuoted(at + 1, end, framing.delimiter);
    while (at != end && *at != framing.delimiter && !IsEnd(*at)) ++at;
    if (at == end || IsEnd(*at)) return at;
    ++at;
  }
  return end;
}

}  // namespace

RecordFrame NextCsvRecord(const char* data, size_t available, const CsvFraming& framing) {
  const char* const end = data + available;
  // Most records have no quotes, and no '\r' but in front of the '\n'.
  const char* line_end = Find(data, end, '\n');
  if (Find(data, line_end, '\r') != line_end || (framing.quotes && Find(data, line_end, '"') != line_end)) {
    line_end = EndOf(data, end, framing);
  }
  if (line_end == end) return kNoRecord;
  const size_t size = line_end - data;
  if (*line_end == '\n') return {RecordFrame::kRecord, 0, size, size + 1, 0};
  if (line_end + 1 == end) return kNoRecord;  // Whether '\n' follows is not known.
  return {RecordFrame::kRecord, 0, size, size + (line_end[1] == '\n' ? 2 : 1), 0};
}

RecordFrame LastCsvRecord(const char* data, size_t available, const CsvFraming& framing) {
  if (available == 0) return kNoRecord;
  const size_t size = EndOf(data, data + available, framing) - data;
  return {RecordFrame::kRecord, 0, size, available, 0};
}

}  // namespace tf_booster
