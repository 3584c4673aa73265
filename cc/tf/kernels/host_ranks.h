// The ranks of this process's host; set up from Python (parallel/host_ranks.py).
#ifndef TF_BOOSTER_CC_TF_KERNELS_HOST_RANKS_H_
#define TF_BOOSTER_CC_TF_KERNELS_HOST_RANKS_H_

#include "cc/core/host_ranks/host_group.h"

namespace tf_booster {

// Null before the ranks have found each other.
HostGroup* TheHostGroup();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_HOST_RANKS_H_
