// Four varints of up to 4 bytes at a time, for SSE4.1 and AVX2: they lie in the 16 bytes from the first one on, and a
// shuffle brings each into a lane of its own. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_NARROW_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_NARROW_H_

// Where four varints begin follows from the widths of the first three: 64 shapes, told by the ends among 12 bytes.
// A lane has kLane bytes, and zeros behind the fourth.
template <int kLane>
struct NarrowShapes {
  static constexpr int kShuffle = 4 * kLane;

  alignas(kShuffle) uint8_t shuffles[64 * kShuffle];
  uint8_t place_of[1 << 12];  // In shuffles, in words: 8 is the most that an address scales by. 0 for ends of no shape.

  constexpr NarrowShapes() : shuffles{}, place_of{} {
    for (int shape = 0; shape < 64; ++shape) {
      const int second = shape % 4 + 1, third = second + shape / 4 % 4 + 1, fourth = third + shape / 16 + 1;
      const int begins[4] = {0, second, third, fourth};
      for (int i = 0; i < kShuffle; ++i) {
        shuffles[shape * kShuffle + i] = static_cast<uint8_t>(i % kLane < 4 ? begins[i / kLane] + i % kLane : 0x80);
      }
      const int ends = 1 << (second - 1) | 1 << (third - 1) | 1 << (fourth - 1);
      for (int behind = 0; behind < 1 << (12 - fourth); ++behind) {
        place_of[ends | behind << fourth] = static_cast<uint8_t>(shape * (kShuffle / 8));
      }
    }
  }

  // The shuffle for varints that end so, from the first byte on.
  const uint8_t* Of(uint64_t ends) const { return shuffles + size_t{8} * place_of[ends & 0xfff]; }
};

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_NARROW_H_
