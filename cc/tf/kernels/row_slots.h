// Rows of several tensors, each row in a slot, slots in blocks that are made as rows come.
#ifndef TF_BOOSTER_CC_TF_KERNELS_ROW_SLOTS_H_
#define TF_BOOSTER_CC_TF_KERNELS_ROW_SLOTS_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tf_booster {

// One thread at a time.
class RowSlots {
 public:
  // A row has a tensor of each of these types and shapes. Types: numbers, bool or string.
  RowSlots(const tensorflow::DataTypeVector& dtypes, const std::vector<tensorflow::TensorShape>& shapes);

  static bool Holds(tensorflow::DataType dtype) {
    return tensorflow::DataTypeCanUseMemcpy(dtype) || dtype == tensorflow::DT_STRING;
  }

  // Copies the `count` rows from `first` on, of tensors with rows along dimension 0, to slots, whose numbers it appends
  // to `*slots`. Of tensors that are a row themselves the first one is all.
  void Put(const std::vector<tensorflow::Tensor>& tensors, int64_t first, int64_t count, std::vector<int64_t>* slots);
  // Moves the rows of `slots` to tensors of `count` rows, or of one row without dimension 0. Their slots are free then.
  void Take(const int64_t* slots, int64_t count, std::vector<tensorflow::Tensor>* tensors);
  // Has rows that nobody wants be overwritten.
  void Free(const std::vector<int64_t>& slots) { free_.insert(free_.end(), slots.begin(), slots.end()); }

 private:
  struct Component {
    tensorflow::DataType dtype;
    tensorflow::TensorShape shape;
    int64_t items;                           // Of a row.
    int64_t bytes;                           // The same; of strings those of their tstrings.
    std::vector<tensorflow::Tensor> blocks;  // [rows of a block, …]
    std::vector<char*> data;                 // Of each block.
  };

  void MakeBlock();
  // copy(j, slot): with the memory of slots[j].
  template <class Copy>
  void ForEach(const Component& component, const int64_t* slots, int64_t count, const Copy& copy) const;

  std::vector<Component> components_;
  std::vector<int64_t> free_;
  int block_bits_;  // The logarithm of how many rows a block has.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_ROW_SLOTS_H_
