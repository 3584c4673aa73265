// Tensors from parsed slices: allocation, and the joining of what several threads parsed.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_OUTPUTS_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_OUTPUTS_H_

#include <cstdint>
#include <initializer_list>

#include "absl/types/span.h"
#include "cc/core/example_parser/example_parser.h"
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
  // The longest list of a record.
  size_t max_length() const;
};

// [leading…, inner…]; `inner` leaves out the first `skip` dimensions of `shape`. ResourceExhausted where there is no
// such memory, InvalidArgument where no tensor is that large.
tensorflow::Status AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> leading,
                                  const tensorflow::PartialTensorShape& shape, int skip, tensorflow::Tensor* tensor);
tensorflow::Status AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> dims,
                                  tensorflow::Tensor* tensor);

// Fixed dense strings of one slice to their rows of `values`; the record's bytes are still in the cache then.
void CopyFixedStrings(const example_parser::ParsedSlice& slice, size_t feature, int64_t first_element,
                      tensorflow::Tensor* values);

// [records, longest list / stride, shape's inner dimensions…], filled up with `padding`'s one value.
tensorflow::Status JoinVarLenDense(const FeatureSlices& from, const tensorflow::PartialTensorShape& shape,
                                   size_t stride, const tensorflow::Tensor& padding, tensorflow::Tensor* values);

// Of a dense feature list, steps in each record: [records], for steps of `elements` values.
tensorflow::Status JoinStepCounts(const FeatureSlices& from, size_t elements, tensorflow::Tensor* counts);

// All values in a row: [values]. Many numbers of a single slice are not copied: the slice gives its memory away, and
// has no values of this feature then.
tensorflow::Status JoinValues(const FeatureSlices& from, tensorflow::Tensor* values);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_BATCH_OUTPUTS_H_
