// Which keys of one list another lacks: those of rows that have left.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_MISSING_FROM_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_MISSING_FROM_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

// The keys of `some` that are not in `all`, in any order. Neither needs to be distinct. Takes as much memory again.
std::vector<int64_t> MissingFrom(const std::vector<int64_t>& all, const std::vector<int64_t>& some, ParallelFor& pf);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_MISSING_FROM_H_
