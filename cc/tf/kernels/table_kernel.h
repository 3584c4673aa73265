// What the kernels on tables share: finding the table, and checking inputs with messages that name op, table, found,
// wanted and remedy.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_KERNEL_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_KERNEL_H_

#include <cstdint>
#include <string>

#include "cc/core/hash_table/hash_table.h"
#include "cc/tf/kernels/status.h"
#include "cc/tf/kernels/table_resource.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// An op's type without the prefix that all ops here have: "TableFind".
std::string ShortOpName(const tensorflow::OpKernel& kernel);

// One call of a kernel on a table. Methods give TensorFlow's Status, for OP_REQUIRES_OK.
class TableCall {
 public:
  explicit TableCall(tensorflow::OpKernelContext* ctx) : ctx_(ctx), parallel_for_(ctx) {}

  // Looks the resource of input 0 up; everything below needs that first.
  tensorflow::Status Open();

  TableResource& resource() const { return *resource_; }
  HashTable& table() const { return resource_->table(); }
  ParallelFor& parallel_for() { return parallel_for_; }

  // "TableFind 'user_emb': ", the start of every message.
  std::string Where() const;

  // A status of cc/core; an error's message begins with the op and the table.
  tensorflow::Status Convert(const Status& status, const std::string& context = "") const;

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
  TfParallelFor parallel_for_;
  tensorflow::core::RefCountPtr<TableResource> resource_;
};

// All elements of an int64 tensor as keys of field 0.
inline KeyBatch KeysOf(const tensorflow::Tensor& tensor) {
  KeyBatch keys;
  keys.keys = tensor.flat<int64_t>().data();
  keys.size = tensor.NumElements();
  return keys;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_KERNEL_H_
