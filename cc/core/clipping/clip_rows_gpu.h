// clip_rows.h on the card: all tensors by one launch or few.
#ifndef TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_GPU_H_
#define TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_GPU_H_

#include <vector>

#include "cc/core/clipping/clip_rows.h"

namespace tf_booster {
namespace gpu {

// Starts on `stream` and does not wait. Null, or CUDA's message.
const char* ClipAllRowsAsync(const std::vector<ClipRows>& all, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_CLIPPING_CLIP_ROWS_GPU_H_
