// Items of different sizes cut into pieces of about the same number of bytes: what a piece costs follows from its
// bytes, not from how many items it has.
#ifndef TF_BOOSTER_CC_CORE_BASE_CUT_BY_BYTES_H_
#define TF_BOOSTER_CC_CORE_BASE_CUT_BY_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tf_booster {

// Where pieces begin, in order, and n behind the last one: piece i is [bounds[i], bounds[i + 1]), and none is empty, so
// there are fewer than `pieces` where items are larger than a piece. `size_of(i)` is item i's bytes, all together
// `bytes`. Without items, {0}.
template <class SizeOf>
std::vector<size_t> CutByBytes(size_t n, size_t bytes, size_t pieces, SizeOf size_of) {
  pieces = std::clamp<size_t>(pieces, 1, std::max<size_t>(1, n));
  std::vector<size_t> bounds = {0};
  bounds.reserve(pieces + 1);
  // Items without bytes cost something, too.
  const double share = static_cast<double>(bytes + n) / static_cast<double>(pieces);
  double before = 0, next = share;
  for (size_t i = 0; i + 1 < n; ++i) {
    before += static_cast<double>(size_of(i) + 1);
    if (before + 0.5 < next) continue;  // Half a byte: what is equal but for rounding ends a piece.
    bounds.push_back(i + 1);
    while (next <= before + 0.5) next += share;  // A large item may be several shares.
  }
  if (n > 0) bounds.push_back(n);
  return bounds;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_CUT_BY_BYTES_H_
