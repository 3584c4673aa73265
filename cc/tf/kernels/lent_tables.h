// Tables of this process that other sessions may read in place of a copy: what a session has just saved, another one
// that restores it has already, as long as nothing changes it.
#ifndef TF_BOOSTER_CC_TF_KERNELS_LENT_TABLES_H_
#define TF_BOOSTER_CC_TF_KERNELS_LENT_TABLES_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/hash_table/hash_table.h"
#include "cc/tf/kernels/device_place.h"
#include "cc/tf/kernels/table_config.h"
#include "cc/tf/kernels/table_resource.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

// Where all fields of a table stand.
tensorflow::Status ReadMarks(const HashTable& table, std::vector<FieldMark>* marks);

class LentTables {
 public:
  // Those of the process.
  static LentTables& Global();

  // Lends a table that stands at `marks` under the name of a lender, in place of what was lent of it before. It is not
  // kept alive.
  void Lend(const std::string& lender, const TableResource& resource, std::vector<FieldMark> marks,
            const DevicePlace& place);

  // The table of one of the lenders that has the fields of `wanted`, and the slots if it wants any; null if there is
  // none at `place`, or it has changed since: `why` says what it is then.
  std::shared_ptr<HashTable> Borrow(const std::vector<std::string>& lenders, const TableConfig& wanted,
                                    const DevicePlace& place, std::string* why) const;

 private:
  struct Lent {
    std::string lender;
    std::weak_ptr<HashTable> table;
    std::shared_ptr<const TableConfig> config;
    std::vector<FieldMark> marks;
    DevicePlace place;
  };

  mutable std::mutex mutex_;
  std::vector<Lent> lent_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_LENT_TABLES_H_
