// The attributes of ops on some fields of several tables: `sizes` says how many of `fields`, and of their names in a
// checkpoint, are of each table, one table after the other.
#ifndef TF_BOOSTER_CC_TF_KERNELS_LISTED_TABLES_H_
#define TF_BOOSTER_CC_TF_KERNELS_LISTED_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// Of one of the tables.
struct ListedTable {
  std::vector<uint32_t> fields;
  std::vector<std::string> names;
  int64_t first = 0;  // Place of the first of its fields among all.
};

// One for each of the `tables` inputs. InvalidArgument: the attributes do not fit together.
tensorflow::Status ReadListedTables(tensorflow::OpKernelConstruction* ctx, std::vector<ListedTable>* tables);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_LISTED_TABLES_H_
