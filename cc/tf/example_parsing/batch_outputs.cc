#include "cc/tf/example_parsing/batch_outputs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/tstring.h"

namespace tf_booster {
namespace {

using example_parser::BytesView;
using example_parser::ParsedSlice;
using example_parser::ValueArray;
using TfStatus = tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

// How one type's values lie in a slice, and how they get into a tensor.
template <class T>
struct Values;

template <>
struct Values<int64_t> {
  static const ValueArray<int64_t>& Of(const ParsedSlice& slice, size_t feature) { return slice.int64s(feature); }
  static void Copy(const int64_t* from, size_t n, int64_t* to) {
    if (n > 0) std::memcpy(to, from, n * sizeof(*to));
  }
};

template <>
struct Values<float> {
  static const ValueArray<float>& Of(const ParsedSlice& slice, size_t feature) { return slice.floats(feature); }
  static void Copy(const float* from, size_t n, float* to) {
    if (n > 0) std::memcpy(to, from, n * sizeof(*to));
  }
};

template <>
struct Values<tstring> {
  static const ValueArray<BytesView>& Of(const ParsedSlice& slice, size_t feature) { return slice.bytes(feature); }
  static void Copy(const BytesView* from, size_t n, tstring* to) {
    for (size_t i = 0; i < n; ++i) to[i].assign(from[i].data, from[i].size);
  }
};

template <class Body>
auto WithType(tensorflow::DataType dtype, Body body) {
  switch (dtype) {
    case tensorflow::DT_STRING:
      return body(tstring());
    case tensorflow::DT_FLOAT:
      return body(float());
    default:
      return body(int64_t());
  }
}

template <class Body>
auto WithNumber(tensorflow::DataType dtype, Body body) {
  return dtype == tensorflow::DT_FLOAT ? body(float()) : body(int64_t());
}

TfStatus NoMemory(tensorflow::DataType dtype, const TensorShape& shape) {
  return tensorflow::errors::ResourceExhausted("ParseExample: no memory for a tensor of shape ", shape.DebugString(),
                                               " and type ", tensorflow::DataTypeString(dtype),
                                               "; make the batch smaller");
}

TfStatus Allocate(tensorflow::DataType dtype, const TensorShape& shape, Tensor* tensor) {
  *tensor = Tensor(dtype, shape);
  if (shape.num_elements() > 0 && !tensor->IsInitialized()) return NoMemory(dtype, shape);
  return tensorflow::OkStatus();
}

TfStatus FullShape(std::initializer_list<int64_t> leading, const tensorflow::PartialTensorShape& shape, int skip,
                   TensorShape* full) {
  for (const int64_t dim : leading) TF_RETURN_IF_ERROR(full->AddDimWithStatus(dim));
  for (int i = skip; i < shape.dims(); ++i) TF_RETURN_IF_ERROR(full->AddDimWithStatus(shape.dim_size(i)));
  return tensorflow::OkStatus();
}

// Whether no slice, moved to where its values belong, covers what a later one has in the block.
template <class T>
bool FitsInOrder(const FeatureSlices& from, const ValueMemory::Block& block) {
  const T* const begin = reinterpret_cast<const T*>(block.data);
  const T* const end = begin + block.bytes / sizeof(T);
  const T* out = begin;
  for (const ParsedSlice* slice : from.slices) {
    const auto& part = Values<T>::Of(*slice, from.feature);
    const bool in_block = part.data() >= begin && part.data() < end;
    if (part.size() > 0 && in_block && part.data() < out) return false;
    out += part.size();
  }
  return out <= end;
}

// A slice's memory as a tensor's.
class ReleasedBuffer final : public tensorflow::TensorBuffer {
 public:
  ReleasedBuffer(void* data, size_t bytes) : TensorBuffer(data), bytes_(bytes) {}
  ~ReleasedBuffer() override { std::free(data()); }

  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  // Asked for each tensor of an element, several times; the default makes a message for the answer.
  bool GetAllocatedBytes(size_t* bytes) const override {
    *bytes = bytes_;
    return true;
  }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(bytes_);
    description->set_allocator_name("tf_booster");
  }

 private:
  const size_t bytes_;
};

// Below this, a copy costs less than what a tensor would keep beyond its size.
constexpr size_t kSmallBytes = 4096;

bool InOwnMemory(const ParsedSlice& slice, const FeatureSlices& from) {
  return from.dtype == tensorflow::DT_FLOAT ? !slice.floats(from.feature).is_lent()
                                            : !slice.int64s(from.feature).is_lent();
}

bool ReleaseValues(const FeatureSlices& from, size_t n, Tensor* values) {
  if (from.slices.size() != 1 || from.dtype == tensorflow::DT_STRING) return false;
  const size_t bytes = n * tensorflow::DataTypeSize(from.dtype);
  if (bytes < kSmallBytes || !InOwnMemory(*from.slices[0], from)) return false;
  static_assert(ValueArray<int64_t>::kAlignment >= EIGEN_MAX_ALIGN_BYTES);
  ParsedSlice* slice = from.slices[0];
  void* data = from.dtype == tensorflow::DT_FLOAT ? static_cast<void*>(slice->ReleaseFloats(from.feature))
                                                  : slice->ReleaseInt64s(from.feature);
  auto* buffer = new ReleasedBuffer(data, bytes);
  *values = Tensor(from.dtype, TensorShape({static_cast<int64_t>(n)}), buffer);
  buffer->Unref();
  return true;
}

}  // namespace

size_t FeatureSlices::num_records() const {
  size_t n = 0;
  for (const ParsedSlice* slice : slices) n += slice->num_records();
  return n;
}

size_t FeatureSlices::num_values() const {
  return WithType(dtype, [this](auto type) {
    size_t n = 0;
    for (const ParsedSlice* slice : slices) n += Values<decltype(type)>::Of(*slice, feature).size();
    return n;
  });
}

TfStatus AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> leading,
                        const tensorflow::PartialTensorShape& shape, int skip, Tensor* tensor) {
  TensorShape full;
  TF_RETURN_IF_ERROR(FullShape(leading, shape, skip, &full));
  return Allocate(dtype, full, tensor);
}

TfStatus AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> dims, Tensor* tensor) {
  return Allocate(dtype, TensorShape(dims), tensor);
}

TfStatus AllocateTensor(tensorflow::DataType dtype, std::initializer_list<int64_t> leading,
                        const tensorflow::PartialTensorShape& shape, int skip, ValueMemory* memory, Tensor* tensor) {
  TensorShape full;
  TF_RETURN_IF_ERROR(FullShape(leading, shape, skip, &full));
  const size_t n = full.num_elements(), item = tensorflow::DataTypeSize(dtype);
  if (dtype == tensorflow::DT_STRING || n < kSmallBytes / item) return Allocate(dtype, full, tensor);
  const ValueMemory::Block block = n > SIZE_MAX / item ? ValueMemory::Block() : memory->Take(n * item);
  if (block.data == nullptr) return NoMemory(dtype, full);
  *tensor = memory->AsTensor(block, dtype, full);
  return tensorflow::OkStatus();
}

void CopyFixedStrings(const ParsedSlice& slice, size_t feature, size_t begin, int64_t first_element, Tensor* values) {
  const auto& strings = slice.bytes(feature);
  if (strings.size() > begin) {
    Values<tstring>::Copy(strings.data() + begin, strings.size() - begin,
                          values->flat<tstring>().data() + first_element);
  }
}

bool JoinInBlock(const FeatureSlices& from, const ValueMemory::Block& block, ValueMemory* memory, Tensor* values) {
  const size_t n = from.num_values(), item = tensorflow::DataTypeSize(from.dtype);
  if (n == 0 || n * item > block.bytes || n * item < block.bytes / 2) return false;
  return WithNumber(from.dtype, [&](auto type) {
    using T = decltype(type);
    if (!FitsInOrder<T>(from, block)) return false;
    T* out = reinterpret_cast<T*>(block.data);
    for (const ParsedSlice* slice : from.slices) {
      const auto& part = Values<T>::Of(*slice, from.feature);
      if (part.size() > 0 && part.data() != out) std::memmove(out, part.data(), part.size() * sizeof(T));
      out += part.size();
    }
    *values = memory->AsTensor(block, from.dtype, TensorShape({static_cast<int64_t>(n)}));
    return true;
  });
}

size_t NumToMove(const FeatureSlices& from, const ValueMemory::Block& block) {
  return WithNumber(from.dtype, [&](auto type) {
    using T = decltype(type);
    const T* out = reinterpret_cast<const T*>(block.data);
    size_t n = 0;
    for (const ParsedSlice* slice : from.slices) {
      const auto& part = Values<T>::Of(*slice, from.feature);
      if (part.data() != out) n += part.size();
      out += part.size();
    }
    return n;
  });
}

TfStatus JoinValues(const FeatureSlices& from, Tensor* values) {
  const size_t n = from.num_values();
  if (ReleaseValues(from, n, values)) return tensorflow::OkStatus();
  TF_RETURN_IF_ERROR(AllocateTensor(from.dtype, {static_cast<int64_t>(n)}, values));
  WithType(from.dtype, [&](auto type) {
    using T = decltype(type);
    T* out = values->flat<T>().data();
    for (const ParsedSlice* slice : from.slices) {
      const auto& part = Values<T>::Of(*slice, from.feature);
      Values<T>::Copy(part.data(), part.size(), out);
      out += part.size();
    }
  });
  return tensorflow::OkStatus();
}

void PadRows(const FeatureSlices& from, size_t slice, size_t first_record, const Tensor& padding, Tensor* values) {
  if (values->NumElements() == 0) return;
  const size_t row = static_cast<size_t>(values->NumElements() / values->dim_size(0));
  const ParsedSlice& part = *from.slices[slice];
  WithType(from.dtype, [&](auto type) {
    using T = decltype(type);
    const auto* in = Values<T>::Of(part, from.feature).data();
    const T fill = padding.flat<T>()(0);
    T* out = values->flat<T>().data() + first_record * row;
    for (const uint32_t length : part.lengths(from.feature)) {
      Values<T>::Copy(in, length, out);
      std::fill(out + length, out + row, fill);
      in += length;
      out += row;
    }
  });
}

void CopyValues(const FeatureSlices& from, size_t slice, size_t first_value, Tensor* values) {
  WithType(from.dtype, [&](auto type) {
    using T = decltype(type);
    const auto& part = Values<T>::Of(*from.slices[slice], from.feature);
    Values<T>::Copy(part.data(), part.size(), values->flat<T>().data() + first_value);
  });
}

}  // namespace tf_booster
