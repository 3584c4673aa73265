// A hash table as a resource of a session, or one of the tables that a fused table consists of.
#ifndef TF_BOOSTER_CC_TF_KERNELS_TABLE_RESOURCE_H_
#define TF_BOOSTER_CC_TF_KERNELS_TABLE_RESOURCE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/hash_table/hash_table.h"
#include "cc/tf/kernels/table_config.h"
#include "tensorflow/core/framework/resource_base.h"

namespace tf_booster {

// The increment that each field had last; 0: none since it was restored or made. And whether a field may be read.
class AppliedIncrements {
 public:
  // needs_restore: no field may be read before it has been given rows.
  AppliedIncrements(size_t fields, bool needs_restore)
      : numbers_(fields, needs_restore ? kNoRows : 0), may_be_read_(!needs_restore) {}

  int64_t Get(uint32_t field) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::max<int64_t>(numbers_[field], 0);
  }
  // Rows of the field were set; `number`: by that increment.
  void Raise(uint32_t field, int64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    Set(field, std::max(numbers_[field], number));
  }
  // It was restored.
  void Forget(uint32_t field) {
    std::lock_guard<std::mutex> lock(mutex_);
    Set(field, 0);
  }
  // Whether all fields may be.
  bool may_be_read() const { return may_be_read_; }

 private:
  static constexpr int64_t kNoRows = -1;

  void Set(uint32_t field, int64_t number) {
    numbers_[field] = number;
    may_be_read_ = *std::min_element(numbers_.begin(), numbers_.end()) != kNoRows;
  }

  mutable std::mutex mutex_;
  std::vector<int64_t> numbers_;
  std::atomic<bool> may_be_read_;
};

class TableResource : public tensorflow::ResourceBase {
 public:
  TableResource(TableConfig config, std::unique_ptr<HashTable> table)
      : config_(std::make_shared<TableConfig>(std::move(config))),
        table_(std::move(table)),
        increments_(std::make_shared<AppliedIncrements>(config_->options.fields.size(), config_->needs_restore)) {}
  // A table that another session trains, as this checkpoint has it ("": as it is now); for reading alone.
  TableResource(TableConfig config, std::shared_ptr<HashTable> borrowed, std::string checkpoint)
      : config_(std::make_shared<TableConfig>(std::move(config))),
        table_(std::move(borrowed)),
        increments_(std::make_shared<AppliedIncrements>(config_->options.fields.size(), /*needs_restore=*/false)),
        borrowed_checkpoint_(std::move(checkpoint)) {}
  // One field of `fused`, which must have it.
  TableResource(const TableResource& fused, int64_t field)
      : config_(fused.config_),
        table_(fused.table_),
        increments_(fused.increments_),
        borrowed_checkpoint_(fused.borrowed_checkpoint_),
        field_(field) {}

  HashTable& table() const { return *table_; }
  const std::shared_ptr<HashTable>& shared_table() const { return table_; }
  const std::shared_ptr<const TableConfig>& shared_config() const { return config_; }
  AppliedIncrements& increments() const { return *increments_; }
  const TableConfig& config() const { return *config_; }
  const std::string& name() const { return config_->options.name; }
  int64_t dim() const { return config_->options.dim; }
  int64_t num_slots() const { return static_cast<int64_t>(config_->slot_names.size()); }
  // Which field is meant; -1: all of the table.
  int64_t field() const { return field_; }
  // None: the table is this session's own.
  const std::optional<std::string>& borrowed_checkpoint() const { return borrowed_checkpoint_; }
  bool IsPartOf(const TableResource& other) const { return table_ == other.table_; }

  std::string DebugString() const override;
  int64_t MemoryUsed() const override { return field_ < 0 ? table_->Stats().bytes : 0; }

 private:
  const std::shared_ptr<const TableConfig> config_;
  const std::shared_ptr<HashTable> table_;
  const std::shared_ptr<AppliedIncrements> increments_;
  const std::optional<std::string> borrowed_checkpoint_;
  const int64_t field_ = -1;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_TABLE_RESOURCE_H_
