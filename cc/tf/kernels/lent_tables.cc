#include "cc/tf/kernels/lent_tables.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "cc/tf/kernels/status.h"

namespace tf_booster {

tensorflow::Status ReadMarks(const HashTable& table, std::vector<FieldMark>* marks) {
  marks->resize(table.options().fields.size());
  for (size_t field = 0; field < marks->size(); ++field) {
    const Status read = table.ReadMark(static_cast<uint32_t>(field), &(*marks)[field]);
    TF_RETURN_IF_ERROR(ToTensorFlow(read, "HashTable", table.options().name));
  }
  return tensorflow::OkStatus();
}

LentTables& LentTables::Global() {
  static auto& tables = *new LentTables();
  return tables;
}

void LentTables::Lend(const std::string& lender, const TableResource& resource, std::vector<FieldMark> marks,
                      const DevicePlace& place) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto is_over = [&](const Lent& lent) {
    const std::shared_ptr<HashTable> table = lent.table.lock();
    return table == nullptr || table == resource.shared_table();
  };
  lent_.erase(std::remove_if(lent_.begin(), lent_.end(), is_over), lent_.end());
  lent_.push_back({lender, resource.shared_table(), resource.shared_config(), std::move(marks), place});
}

std::shared_ptr<HashTable> LentTables::Borrow(const std::vector<std::string>& lenders, const TableConfig& wanted,
                                              const DevicePlace& place, std::string* why) const {
  std::lock_guard<std::mutex> lock(mutex_);
  *why = "none of its name was saved";
  for (const Lent& lent : lent_) {
    if (!absl::c_linear_search(lenders, lent.lender) || lent.config->options.name != wanted.options.name) continue;
    std::shared_ptr<HashTable> table = lent.table.lock();
    if (table == nullptr) continue;
    const std::string difference = DifferenceToReaders(*lent.config, wanted);
    std::vector<FieldMark> marks;
    if (!difference.empty()) {
      *why = absl::StrCat("that one differs in ", difference);
    } else if (!(lent.place == place)) {
      *why = absl::StrCat("that one is on ", lent.place.device, ", this one on ", place.device);
    } else if (const tensorflow::Status read = ReadMarks(*table, &marks); !read.ok()) {
      *why = read.ToString();
    } else if (marks != lent.marks) {
      *why = "that one has changed since it was saved";
    } else {
      return table;
    }
  }
  return nullptr;
}

}  // namespace tf_booster
