// What AVX2 takes from BMI2, where PEXT and PDEP take a cycle. Included inside the level's namespace.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_BMI2_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_BMI2_H_

inline uint64_t GatherSevens(uint64_t x) { return _pext_u64(x, 0x7f7f7f7f7f7f7f7f); }

// Where the kNth bit of those that are set stands: the first one's kNth is 1.
template <int kNth>
inline uint64_t PlaceOf(uint64_t bits) {
  return _tzcnt_u64(_pdep_u64(uint64_t{1} << (kNth - 1), bits));
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_LEVELS_BMI2_H_
