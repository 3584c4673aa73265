// A hash table as a resource of a session.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_RESOURCE_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_RESOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "cc/core/hash_table/hash_table.h"
#include "cc/tf/kernels/table_config.h"
#include "tensorflow/core/framework/resource_base.h"

namespace tf_booster {

class TableResource : public tensorflow::ResourceBase {
 public:
  TableResource(TableConfig config, std::unique_ptr<HashTable> table)
      : config_(std::move(config)), table_(std::move(table)) {}

  HashTable& table() const { return *table_; }
  const TableConfig& config() const { return config_; }
  const std::string& name() const { return config_.options.name; }
  int64_t dim() const { return config_.options.dim; }
  int64_t num_slots() const { return static_cast<int64_t>(config_.slot_names.size()); }

  std::string DebugString() const override;
  int64_t MemoryUsed() const override { return table_->Stats().bytes; }

 private:
  const TableConfig config_;
  const std::unique_ptr<HashTable> table_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_RESOURCE_H_
