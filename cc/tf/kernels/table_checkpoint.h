// Reads a table's tensors from a V2 checkpoint; docs/design/tables_in_graphs.md lists them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_CHECKPOINT_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/partition.h"
#include "cc/tf/kernels/table_kernel.h"
#include "cc/tf/kernels/tensor_rows.h"
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

// The attributes rank, size and partition of an op.
tensorflow::Status ReadKeyPart(tensorflow::OpKernelConstruction* ctx, KeyPart* part);

class TableCheckpoint {
 public:
  // `prefix`: the checkpoint's path without ".index". `name`: what the table is called in it. `call` must be open.
  TableCheckpoint(const TableCall& call, std::string prefix, std::string name, const KeyPart& part);

  // Finds the table and checks names, dtypes and shapes. NotFound: no such checkpoint, or the table is not in it.
  // InvalidArgument: another dtype or shape than the table's. DataLoss: corrupt. A checkpoint written in shards or
  // slices reads as any other.
  tensorflow::Status Open();

  // What it holds, read piece by piece as it is asked for; borrows this object. Where it ends with an error, status()
  // says more: DataLoss, corrupt or truncated. Of several ranks each reads the keys of all rows, and what else belongs
  // to its own keys; a shard of the checkpoint that has none of them is not read further.
  ContentsSource Source(uint32_t field);
  const tensorflow::Status& status() const { return status_; }

  // Calls visit(piece) with what Source gives, until there is no more; it may end that with an error.
  template <class Visit>
  tensorflow::Status ForEachPiece(uint32_t field, Visit visit) {
    const ContentsSource source = Source(field);
    for (;;) {
      ContentsIn piece;
      const Status read = source.next(&piece);
      TF_RETURN_IF_ERROR(status_);
      TF_RETURN_IF_ERROR(call_.Convert(read));
      if (piece.rows == 0 && piece.pending == 0) return tensorflow::OkStatus();
      TF_RETURN_IF_ERROR(visit(piece));
    }
  }

  // What TableSaveIncrement writes is no whole table, but the rows that changed after the step `since`, or all (-1), up
  // to the step `step`; its Source gives these.
  struct Increment {
    int64_t number = 0, since = 0, step = 0;
    // Of the rows that there are; or of rows that left, of which some may be back.
    bool has_all_keys = false, has_left_keys = false;
  };
  const std::optional<Increment>& increment() const { return increment_; }
  // Those of has_all_keys or has_left_keys.
  tensorflow::Status ReadIncrementKeys(std::vector<int64_t>* keys);

  // The optimizer whose slots the checkpoint has; they are read if it is the table's own.
  const std::string& optimizer() const { return optimizer_; }
  bool has_slots() const { return !slots_.empty(); }

 private:
  // A tensor of rows, and those of them that were read last.
  template <class T>
  struct Array {
    TensorRows rows;
    std::vector<T> values;
  };

  // Checks the dtype and shape of <name>/<suffix>; in `shape` -1 stands for any size.
  tensorflow::Status CheckEntry(const std::string& suffix, tensorflow::DataType dtype,
                                const std::vector<int64_t>& shape, tensorflow::TensorShape* found);
  tensorflow::Status CheckShape(const std::string& full_name, const tensorflow::TensorShape& found,
                                const std::vector<int64_t>& wanted) const;
  tensorflow::Status OpenIncrement();
  // A tensor of the shape, as rows; `length`, if not null, gets how many there are.
  template <class T>
  tensorflow::Status OpenRows(const std::string& suffix, const std::vector<int64_t>& shape,
                              std::unique_ptr<Array<T>>* array, int64_t* length = nullptr);
  // A scalar; where the checkpoint has none, it stays as it is.
  template <class T>
  tensorflow::Status ReadScalar(const std::string& suffix, std::optional<T>* value);
  tensorflow::Status Corrupt(const std::string& full_name, const tensorflow::Status& status) const;

  // All arrays of rows that the checkpoint has, as visit(array, columns) sees them; the same of pending keys.
  template <class Visit>
  tensorflow::Status ForEachRowArray(Visit visit);
  template <class Visit>
  tensorflow::Status ForEachPendingArray(Visit visit);

  tensorflow::Status Next(ContentsIn* piece);
  // The next keys of this rank, and what belongs to them, into the arrays' values; how many they are. 0 at the end.
  template <class ForEach>
  tensorflow::Status ReadOwn(Array<int64_t>* keys, int64_t most, ForEach for_each, int64_t* size);
  // Whether the piece of the checkpoint that `keys` is about to read has keys of this rank.
  tensorflow::Status HasOwn(const Array<int64_t>& keys, int64_t most, bool* has);

  std::string FullName(const std::string& suffix) const { return name_ + "/" + suffix; }
  std::string TablesInCheckpoint();

  const TableCall& call_;
  const std::string prefix_;
  const std::string name_;
  const KeyPart part_;
  tensorflow::BundleReader reader_;
  tensorflow::Status status_;

  // Null for what the checkpoint lacks.
  std::unique_ptr<Array<int64_t>> keys_, frequencies_, last_use_steps_, pending_keys_, pending_counts_;
  std::unique_ptr<Array<int64_t>> increment_keys_;
  std::unique_ptr<Array<float>> values_;
  std::vector<std::unique_ptr<Array<float>>> slots_;
  int64_t num_rows_ = 0, num_pending_ = 0, num_increment_keys_ = 0;
  std::optional<int64_t> step_, seed_;
  std::string optimizer_;
  std::optional<Increment> increment_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_CHECKPOINT_H_
