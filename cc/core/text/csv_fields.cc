#include "cc/core/text/csv_fields.h"

#include <emmintrin.h>

namespace tf_booster {

namespace {

bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

// Bit i: whether byte i is one of those that a plain line has not; and whether it is the delimiter.
struct Marks {
  Marks(char delimiter, bool quotes)
      : delimiter_(_mm_set1_epi8(delimiter)), quote_(_mm_set1_epi8(quotes ? '"' : '\n')) {}

  // The 16 bytes from `data` on.
  void Look(const char* data, unsigned* delimiters, unsigned* others) const {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
    const __m128i ends =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')));
    *delimiters = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, delimiter_)));
    *others = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(ends, _mm_cmpeq_epi8(bytes, quote_))));
  }

 private:
  const __m128i delimiter_, quote_;
};

}  // namespace

bool CsvFields::IsWanted(size_t number) const {
  const auto& columns = format_.columns;
  return columns.empty() ||
         (fields_.size() < columns.size() && columns[fields_.size()] == static_cast<int64_t>(number));
}

const char* CsvFields::Split(std::string_view line) { return SplitPlain(line) ? nullptr : SplitAny(line); }

// Of a line without quotes and line ends: what stands between delimiters. False for any other.
bool CsvFields::SplitPlain(std::string_view line) {
  fields_.clear();
  if (line.empty()) return true;
  if (IsLineEnd(format_.delimiter) || format_.delimiter == '"') return false;
  const Marks marks(format_.delimiter, format_.quotes);
  const char* const data = line.data();
  size_t begin = 0, number = 0;
  const auto add = [&](size_t end) {
    if (IsWanted(number)) fields_.emplace_back(data + begin, end - begin);
    begin = end + 1;
    ++number;
  };
  alignas(16) char last[16];
  for (size_t at = 0; at < line.size(); at += 16) {
    const char* bytes = data + at;
    const size_t left = line.size() - at;
    if (left < 16) {  // Bytes behind the line may not be there. What stands in their place marks nothing.
      for (size_t i = 0; i < 16; ++i) last[i] = i < left ? bytes[i] : static_cast<char>(format_.delimiter ^ 0x40);
      bytes = last;
    }
    unsigned delimiters, others;
    marks.Look(bytes, &delimiters, &others);
    if (others != 0) return false;
    for (; delimiters != 0; delimiters &= delimiters - 1) add(at + static_cast<size_t>(__builtin_ctz(delimiters)));
  }
  add(line.size());
  return true;
}

const char* CsvFields::SplitAny(std::string_view line) {
  fields_.clear();
  unescaped_.clear();
  unescaped_.reserve(line.size());
  const auto& columns = format_.columns;
  size_t at = 0, number = 0;
  while (at < line.size()) {
    if (IsLineEnd(line[at])) {
      ++at;
      continue;
    }
    std::string_view field;
    if (format_.quotes && line[at] == '"') {
      ++at;
      if (const char* wrong = Quoted(line, &at, &field)) return wrong;
    } else {
      const size_t begin = at;
      for (; at < line.size() && line[at] != format_.delimiter; ++at) {
        if ((format_.quotes && line[at] == '"') || IsLineEnd(line[at])) {
          return "Unquoted fields cannot have quotes/CRLFs inside";
        }
      }
      field = line.substr(begin, at - begin);
      ++at;
    }
    if (IsWanted(number++)) {
      fields_.push_back(field);
      if (fields_.size() == columns.size() && !format_.whole) return nullptr;
    }
  }
  if (!line.empty() && line.back() == format_.delimiter && IsWanted(number)) fields_.emplace_back();
  return nullptr;
}

// `*at`: behind the first quote; then behind the delimiter, or the line.
const char* CsvFields::Quoted(std::string_view line, size_t* at, std::string_view* field) {
  const size_t begin = *at, begin_unescaped = unescaped_.size();
  bool escaped = false;
  size_t i = begin, copied = begin;
  while (i + 1 < line.size() && (line[i] != '"' || line[i + 1] != format_.delimiter)) {
    if (line[i] != '"') {
      ++i;
      continue;
    }
    if (line[i + 1] != '"') return "Quote inside a string has to be escaped by another quote";
    escaped = true;
    unescaped_.append(line, copied, i + 1 - copied);
    i += 2;
    copied = i;
  }
  if (i >= line.size() || line[i] != '"') return "Quoted field has to end with quote followed by delim or end";
  if (escaped) {
    unescaped_.append(line, copied, i - copied);
    *field = std::string_view(unescaped_).substr(begin_unescaped);
  } else {
    *field = line.substr(begin, i - begin);
  }
  *at = i + 2;
  return nullptr;
}

}  // namespace tf_booster
