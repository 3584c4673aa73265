// Columns of matrices on the card, beside each other or apart: some 40 matrices by one launch, whose table travels as
// the kernel's argument. (TensorFlow's Concat and Split send theirs to the card by a copy of its own, from 9 on.)
#ifndef TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_GPU_H_
#define TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_GPU_H_

#include <cstdint>
#include <vector>

namespace tf_booster {
namespace gpu {

// Rows of `width` bytes, whose beginnings are so many bytes apart.
struct ColumnsJob {
  int64_t rows = 0;
  int64_t width = 0;
  const char* from = nullptr;
  int64_t from_step = 0;
  char* to = nullptr;
  int64_t to_step = 0;
  int word = 1;       // Set by the copy itself: bytes that a thread copies at a time,
  int64_t units = 0;  // and how many such words there are.
};

// Starts on `stream` and does not wait. Null, or CUDA's message.
const char* CopyColumnsAsync(const std::vector<ColumnsJob>& jobs, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_COLUMNS_COLUMN_COPY_GPU_H_
