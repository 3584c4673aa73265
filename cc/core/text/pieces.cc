#include "cc/core/text/pieces.h"

#include <emmintrin.h>

namespace tf_booster {

namespace {

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void SplitAtBlanks(std::string_view text, size_t left, std::vector<std::string_view>* pieces) {
  size_t at = 0;
  while (left > 0) {
    while (at < text.size() && IsBlank(text[at])) ++at;
    const size_t begin = at;
    while (at < text.size() && !IsBlank(text[at])) ++at;
    if (at == begin) return;
    pieces->push_back(text.substr(begin, at - begin));
    --left;
  }
}

}  // namespace

void SplitPieces(std::string_view text, const Splitting& how, size_t most, std::vector<std::string_view>* pieces) {
  if (how.blanks) return SplitAtBlanks(text, most, pieces);
  if (text.empty() && how.empty != EmptyPieces::kKept) return;
  const char* const data = text.data();
  const size_t size = text.size();
  size_t begin = 0, left = most;
  const auto add = [&](size_t end) {
    if (left > 0 && (end > begin || how.empty != EmptyPieces::kSkipped)) {
      pieces->emplace_back(data + begin, end - begin);
      --left;
    }
    begin = end + 1;
  };
  size_t at = 0;
  const __m128i delimiter = _mm_set1_epi8(how.delimiter);
  for (; at + 16 <= size && left > 0; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + at));
    auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, delimiter)));
    for (; found != 0; found &= found - 1) add(at + static_cast<size_t>(__builtin_ctz(found)));
  }
  for (; at < size && left > 0; ++at) {
    if (data[at] == how.delimiter) add(at);
  }
  add(size);
}

}  // namespace tf_booster
