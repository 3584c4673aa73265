// What a table's handle op says about the table, in attributes.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_CONFIG_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_CONFIG_H_

#include <string>
#include <utility>
#include <vector>

#include "cc/core/hash_table/table_options.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

struct TableConfig {
  TableOptions options;
  std::string optimizer;                // Name of the fused optimizer that the rows carry slots for; empty for none.
  std::vector<std::string> slot_names;  // One for each of options.slot_initial_values.
  float memory_fraction = 0;            // How full memory may be of rows,
  std::string directory;                // and on the CPU, where further ones go; empty for nowhere.
  bool needs_restore = false;           // Whether reading it before that is an error.

  // What the rows are, as (attribute, value in text), in a fixed order: what is compared when a name is used twice.
  std::vector<std::pair<std::string, std::string>> description;
};

// Reads and checks the attributes of TfBoosterHashTable. InvalidArgument where lists disagree or a name is unknown.
tensorflow::Status ReadTableConfig(tensorflow::OpKernelConstruction* ctx, TableConfig* config);

// Where a table and an op of its name differ, for people: "dim (it has 16, this op 8)"; empty if they do not.
std::string Difference(const TableConfig& table, const TableConfig& op);

// The same of what lookups and exports of the op's table would see; slots if it has any.
std::string DifferenceToReaders(const TableConfig& table, const TableConfig& op);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_CONFIG_H_
