// Tensors from parsed slices: allocation, and the joining of what several threads parsed.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_OUTPUTS_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_OUTPUTS_H_

#include <cstdint>
#include <initializer_list>

#include "absl/types/span.h"
#include "cc/core/example_parser/example_parser.h"
#include "cc/tf/example_parsing/value_memory.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

// The slices of a batch in order, and one feature of theirs. Its values in record order are the slices' one after
// another.
struct FeatureSlices {
  absl::Span<example_parser::ParsedSlice* const> slices;
  size_t feature;
  tensorflow::DataType dtype;

  size_t num_records() const;
  size_t num_values() const;
};

// [leading…, inner…]; `inner` leaves out the first `skip` dimensions of `shape`. ResourceExhausted where there is no
// such memory, InvalidArgument where no tensor is that large.
tensorflow::Status AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> leading,
                                  const tensorflow::PartialTensorShape& shape, int skip, tensorflow::Tensor* tensor);
tensorflow::Status AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> dims,
                                  tensorflow::Tensor* tensor);
// Numbers in memory of `memory`; strings, and few numbers, are TensorFlow's.
tensorflow::Status AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> leading,
                                  const tensorflow::PartialTensorShape& shape, int skip, ValueMemory* memory,
                                  tensorflow::Tensor* tensor);

// Fixed dense strings of one slice, from its string `begin` on, to where they belong in `values`; the record's bytes
// are still in the cache then.
void CopyFixedStrings(const example_parser::ParsedSlice& slice, size_t feature, size_t begin, int64_t first_element,
                      tensorflow::Tensor* values);

// The records of slice number `slice` into `values` [records, …] from record `first_record` on, each filled up with
// `padding`'s one value.
void PadRows(const FeatureSlices& from, size_t slice, size_t first_record, const tensorflow::Tensor& padding,
             tensorflow::Tensor* values);

// The values of slice number `slice` into `values` [values] from `first_value` on.
void CopyValues(const FeatureSlices& from, size_t slice, size_t first_value, tensorflow::Tensor* values);

// All values in a row: [values]. Many numbers of a single slice are not copied: the slice gives its memory away, and
// has no values of this feature then.
tensorflow::Status JoinValues(const FeatureSlices& from, tensorflow::Tensor* values);

// The same for slices that parsed into parts of `block`, in order. What lies where it belongs stays there, the rest
// moves up, and the block becomes the tensor's. False, and nothing happened: a slice had more values than room, or the
// tensor would fill less than half of the block.
bool JoinInBlock(const FeatureSlices& from, const ValueMemory::Block& block, ValueMemory* memory,
                 tensorflow::Tensor* values);
// Values that JoinInBlock would move.
size_t NumToMove(const FeatureSlices& from, const ValueMemory::Block& block);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_OUTPUTS_H_
