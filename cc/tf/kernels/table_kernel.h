// What the kernels on tables share: finding the table, and checking inputs with messages that name op, table, found,
// wanted and remedy.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_KERNEL_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_KERNEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/hash_table/hash_table.h"
#include "cc/tf/kernels/helped_parallel_for.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// An op's type without the prefix that all ops here have: "TableFind".
std::string ShortOpName(const tensorflow::OpKernel& kernel);

// One call of a kernel on a table. Methods give TensorFlow's Status, for OP_REQUIRES_OK.
class TableCall {
 public:
  explicit TableCall(tensorflow::OpKernelContext* ctx)
      : ctx_(ctx), parallel_for_(ctx->device()->tensorflow_cpu_worker_threads()->workers) {}

  // Looks the resource of an input up; everything below needs that first.
  tensorflow::Status Open(int input = 0);

  // The same for an op on one of the tables that a fused table consists of: the handle says which.
  tensorflow::Status OpenField();

  // Makes messages name the table that is this field, which must be one; -1: the whole table.
  void SetField(int64_t field) { field_ = field; }

  // The field of a call that was opened by OpenField, and all elements of an int64 tensor as its keys.
  uint32_t field() const { return static_cast<uint32_t>(field_); }
  KeyBatch KeysOf(const tensorflow::Tensor& tensor) const {
    return {tensor.flat<int64_t>().data(), nullptr, tensor.NumElements(), field()};
  }

  TableResource& resource() const { return *resource_; }
  HashTable& table() const { return resource_->table(); }
  ParallelFor& parallel_for() { return parallel_for_; }

  // "TableFind 'user_emb': ", the start of every message: the name of the field, or of the whole table.
  std::string Where() const;

  // A status of cc/core; an error's message begins with the op and the table.
  tensorflow::Status Convert(const Status& status, const std::string& context = "") const;

  // That the table is this session's own, to be changed.
  tensorflow::Status CheckOwned() const;

  // That it was restored, where all its rows come from a checkpoint.
  tensorflow::Status CheckReadable() const;

  // `dim`, an op's attribute, against the table's.
  tensorflow::Status CheckDim(int64_t dim) const;

  // That `tensor` is a vector; of `size` entries, like `like`, unless size is -1.
  tensorflow::Status CheckVector(const tensorflow::Tensor& tensor, const char* name, int64_t size = -1,
                                 const char* like = "") const;

  // That `tensor` is [rows, dim]; rows is the size of the input `like`.
  tensorflow::Status CheckRows(const tensorflow::Tensor& tensor, const char* name, int64_t rows,
                               const char* like) const;

  // That `tensor` is a scalar (one element in whatever rank is no scalar).
  tensorflow::Status CheckScalar(const tensorflow::Tensor& tensor, const char* name) const;

 private:
  tensorflow::OpKernelContext* const ctx_;
  // A batch of new keys is five loops of 100 us to 2 ms: with TensorFlow's own loop, for which all threads wake up and
  // the caller sleeps, two threads were 1.2 to 1.6 times as fast as one.
  HelpedParallelFor parallel_for_;
  tensorflow::core::RefCountPtr<TableResource> resource_;
  int64_t field_ = -1;
};

// A list attribute of fields. InvalidArgument where one is below 0; the table checks the rest.
tensorflow::Status ReadFields(tensorflow::OpKernelConstruction* ctx, const char* attr, std::vector<uint32_t>* fields);

// An int32 tensor of fields, as TableProbe gives them.
inline const uint32_t* FieldsOf(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<const uint32_t*>(tensor.flat<int32_t>().data());
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_KERNEL_H_
