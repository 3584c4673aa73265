// Reads a table's tensors from a V2 checkpoint; docs/design/tables_in_graphs.md lists them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_CHECKPOINT_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/partition.h"
#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace tf_booster {

// The keys that one rank keeps of a table that is partitioned over ranks; of one rank: all.
struct KeyPart {
  int32_t rank = 0;
  int32_t size = 1;
  PartitionMode mode = PartitionMode::kHash;

  bool has(int64_t key) const { return size == 1 || OwnerOf(key, size, mode) == rank; }
};

class TableCheckpoint {
 public:
  // `prefix`: the checkpoint's path without ".index". `name`: what the table is called in it. `call` must be open.
  // Of several ranks each reads the keys of all rows, and what else belongs to its own keys, some megabytes at a time;
  // a shard of the checkpoint that has none of them is not read further.
  TableCheckpoint(tensorflow::OpKernelContext* ctx, const TableCall& call, std::string prefix, std::string name,
                  const KeyPart& part);

  // Reads and checks all. NotFound: no such checkpoint, or the table is not in it. InvalidArgument: another dtype or
  // shape than the table's. DataLoss: corrupt or truncated. A checkpoint written in shards or slices reads as any
  // other.
  tensorflow::Status Read();

  // What Read found, borrowed from this object.
  ContentsIn Contents() const;

  // The optimizer whose slots the checkpoint has; the table's slots were read if it is the table's own.
  const std::string& optimizer() const { return optimizer_; }
  bool has_slots() const { return !slots_.empty(); }

 private:
  // Keys of one kind, admitted or pending: how many the checkpoint has, and which of them are this rank's.
  struct Keys {
    int64_t total = 0;
    std::vector<int64_t> rows;  // Numbers of this rank's, ascending; unused where it keeps all.
  };

  // The dtype and shape of <name>/<suffix>, and its data. In `shape` -1 stands for any size. `keys`: of which rows the
  // tensor is; of those only this rank's are read. Null: it is read whole.
  tensorflow::Status ReadTensor(const std::string& suffix, tensorflow::DataType dtype,
                                const std::vector<int64_t>& shape, const Keys* keys, tensorflow::Tensor* tensor);
  // The same, but leaves `tensor` as it is where the checkpoint does not have it.
  tensorflow::Status ReadOptional(const std::string& suffix, tensorflow::DataType dtype,
                                  const std::vector<int64_t>& shape, const Keys* keys, tensorflow::Tensor* tensor);
  // Reads a tensor of keys, and fills in `keys`.
  tensorflow::Status AllocateOnHost(tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
                                    tensorflow::Tensor* tensor);
  tensorflow::Status ReadKeys(const std::string& suffix, Keys* keys, tensorflow::Tensor* tensor);
  tensorflow::Status ReadRowsOfPart(const std::string& full_name, const tensorflow::TensorShape& shape,
                                    const Keys& keys, tensorflow::Tensor* tensor);
  tensorflow::Status ReadKeysOfPart(const std::string& full_name, const tensorflow::TensorShape& shape, Keys* keys,
                                    tensorflow::Tensor* tensor);
  tensorflow::Status CheckEntry(const std::string& suffix, tensorflow::DataType dtype,
                                const std::vector<int64_t>& shape, tensorflow::TensorShape* found);
  tensorflow::Status Corrupt(const std::string& full_name, const tensorflow::Status& status) const;
  tensorflow::Status ReadRows();
  tensorflow::Status ReadSlots();
  tensorflow::Status ReadPending();
  tensorflow::Status CheckShape(const std::string& full_name, const tensorflow::TensorShape& found,
                                const std::vector<int64_t>& wanted) const;

  std::string FullName(const std::string& suffix) const { return name_ + "/" + suffix; }
  std::string TablesInCheckpoint();

  tensorflow::OpKernelContext* const ctx_;
  const TableCall& call_;
  const std::string prefix_;
  const std::string name_;
  const KeyPart part_;
  tensorflow::BundleReader reader_;
  Keys admitted_, pending_;

  // A tensor that the checkpoint lacks is empty of type float (a Tensor's default).
  tensorflow::Tensor keys_, values_, frequencies_, last_use_steps_, pending_keys_, pending_counts_, step_, seed_;
  std::vector<tensorflow::Tensor> slots_;
  std::string optimizer_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_CHECKPOINT_H_
