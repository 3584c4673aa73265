// The blocks of the scalar level: words of 8 bytes. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SCALAR_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SCALAR_H_

inline bool EqualBytes(const uint8_t* a, const uint8_t* b, size_t n) { return EqualWords(a, b, n); }

inline uint64_t GatherSevens(uint64_t x) { return JoinSevens(x & 0x7f7f7f7f7f7f7f7f); }

// See scanner.h. A varint at a time, from one load of 8 bytes.
constexpr size_t kReach = 10;

inline const uint8_t* DecodeBlock(const uint8_t* p, const uint8_t* end, int64_t** out, int64_t* out_end) {
  if (*out == out_end) return nullptr;
  const uint64_t x = Load64(p);
  const uint64_t last = ~x & 0x8080808080808080;
  size_t size;
  uint64_t value;
  if (last != 0) {
    const int bits = __builtin_ctzll(last) + 1;  // Through the last byte: 8 to 64.
    size = bits / 8;
    value = GatherSevens(x & (~uint64_t{0} >> (64 - bits)));
  } else {
    const bool ten = p[8] >= 0x80;
    if (ten && p[9] >= 0x80) return nullptr;
    size = ten ? 10 : 9;
    value = GatherSevens(x) | HighBits(p + 8, ten);
  }
  if (size > static_cast<size_t>(end - p)) return nullptr;
  *(*out)++ = static_cast<int64_t>(value);
  return p + size;
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_SCALAR_H_
