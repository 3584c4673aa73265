// The same as bmi2.h without BMI2: AMD's Zen 1 and 2 have PEXT and PDEP in microcode, 18 cycles and more. Included
// inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_NO_BMI2_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_NO_BMI2_H_

inline uint64_t GatherSevens(uint64_t x) { return JoinSevens(x & 0x7f7f7f7f7f7f7f7f); }

template <int kNth>
inline uint64_t PlaceOf(uint64_t bits) {
  for (int i = 1; i < kNth; ++i) bits = _blsr_u64(bits);
  return _tzcnt_u64(bits);
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_NO_BMI2_H_
