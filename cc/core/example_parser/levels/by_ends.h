// DecodeBlock for the levels that find the ends of all varints in 64 bytes first, and then know where each begins: no
// load waits for the one before. Included inside the level's namespace, after its blocks.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_BY_ENDS_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_BY_ENDS_H_

// 64 bytes for the ends; AVX2 loads 16 bytes from where three single ones behind the last varint would end.
constexpr size_t kReach = 64 + 3 + 16;

inline const uint8_t* DecodeBlock(const uint8_t* p, const uint8_t* end, int64_t** out, int64_t* out_end) {
  const size_t left = static_cast<size_t>(end - p);
  const uint64_t valid = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
  const uint64_t more = HighestBits(p) & valid;  // Bytes with one to follow.
  const uint64_t ends = ~more & valid;
  const size_t count = static_cast<size_t>(__builtin_popcountll(ends));
  if (count > static_cast<size_t>(out_end - *out)) return nullptr;
  int64_t* const values = *out;
  if (more == 0 && count > 0) {
    *out += count;
    WidenBytes(p, count, values);
    return p + count;
  }
  // Bit i of two, four, eight: from byte i on, so many in a row have one to follow. Four in a row are a varint of 5
  // bytes or more, eight one of 9, ten one of 11: none has that.
  const uint64_t two = more & more >> 1;
  const uint64_t four = two & two >> 2;
  const uint64_t eight = four & four >> 4;
  if ((eight & two >> 8) != 0 || ends == 0) return nullptr;
  *out += count;
  DecodeEnds(p, ends, count, four == 0 ? 4 : eight == 0 ? 8 : 10, values, out_end);
  return p + (64 - __builtin_clzll(ends));
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_BY_ENDS_H_
