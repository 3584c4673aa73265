// What a lookup leaves to who inserts: the keys without a row, part by part.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_MISSING_KEYS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_MISSING_KEYS_H_

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace tf_booster {

// Places of a batch's keys that have no row, found part by part by any threads.
struct MissingKeys {
  static constexpr int64_t kPart = 4096;

  explicit MissingKeys(int64_t batch) : places(new uint32_t[batch]), counts((batch + kPart - 1) / kPart) {}

  int64_t num_parts() const { return static_cast<int64_t>(counts.size()); }
  int64_t total() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

  std::unique_ptr<uint32_t[]> places;  // Those of part p from p * kPart on, less p * kPart, in batch order.
  std::vector<int64_t> counts;         // Of each part.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_MISSING_KEYS_H_
