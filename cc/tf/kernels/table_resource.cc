#include "cc/tf/kernels/table_resource.h"

#include "absl/strings/str_cat.h"

namespace tf_booster {

std::string TableResource::DebugString() const {
  TableStats stats = table_->Stats();
  if (field_ >= 0) (void)table_->FieldStats(static_cast<uint32_t>(field_), &stats);  // The field exists.
  const std::string& shown = field_ < 0 ? name() : config_->options.fields[field_].name;
  return absl::StrCat("HashTable '", shown, "': ", stats.rows, " rows of dim ", dim(), ", ", stats.pending,
                      " keys pending, optimizer '", config_->optimizer, "', step ", stats.step, ", ", stats.bytes,
                      " bytes");
}

}  // namespace tf_booster
