#include "cc/tf/kernels/table_resource.h"

#include "absl/strings/str_cat.h"

namespace tf_booster {

std::string TableResource::DebugString() const {
  const TableStats stats = table_->Stats();
  return absl::StrCat("HashTable '", name(), "': ", stats.rows, " rows of dim ", dim(), ", ", stats.pending,
                      " keys pending, optimizer '", config_.optimizer, "', step ", stats.step, ", ", stats.bytes,
                      " bytes");
}

}  // namespace tf_booster
