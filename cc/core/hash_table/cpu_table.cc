#include "cc/core/hash_table/cpu_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cc/core/hash_table/cpu_table_impl.h"

namespace tf_booster {
namespace {

bool AdmitsAll(const TableOptions& options) {
  return std::all_of(options.fields.begin(), options.fields.end(),
                     [](const FieldOptions& field) { return field.min_frequency <= 1; });
}

}  // namespace

Status NewCpuTable(TableOptions options, std::unique_ptr<HashTable>* table, const CpuTableConfig& config) {
  TFB_RETURN_IF_ERROR(CheckOptions(options));
  if (config.bucket_entries != 4 && config.bucket_entries != 1) {
    return Status(StatusCode::kInvalidArgument, "Table '" + options.name + "': bucket_entries is " +
                                                    std::to_string(config.bucket_entries) + ", but must be 4 or 1");
  }
  if (config.max_load_percent < 50 || config.max_load_percent > 95) {
    return Status(StatusCode::kInvalidArgument, "Table '" + options.name + "': max_load_percent is " +
                                                    std::to_string(config.max_load_percent) +
                                                    ", but must be in [50, 95]");
  }
  TFB_RETURN_IF_ERROR(CheckDiskFolder(options, config.disk_folder));
  CpuTableConfig filled = config;
  if (filled.allocator == nullptr) filled.allocator = HostAllocator();
  if (filled.memory == nullptr) filled.memory = MachineMemory();
  if (filled.row_memory == nullptr) filled.row_memory = filled.memory;
  *table = std::make_unique<CpuTable>(std::move(options), filled);
  return Status();
}

CpuTable::CpuTable(TableOptions options, const CpuTableConfig& config)
    : options_(std::move(options)),
      config_(config),
      admits_all_(AdmitsAll(options_)),
      edits_(options_.fields.size()),
      left_keys_(options_.fields.size()),
      state_(NewState()),
      epoch_(FirstEpoch()),
      row_swap_(config.swap_steps) {}

std::unique_ptr<TableState> CpuTable::NewState() const {
  return std::make_unique<TableState>(options_, config_.allocator, config_.bucket_entries, config_.max_load_percent,
                                      RowDisk{config_.disk_folder, config_.row_memory});
}

Status CpuTable::Reserve(int64_t rows, ParallelFor& pf) {
  std::lock_guard<std::mutex> lock(writer_);
  return Guarded([&] {
    const int64_t more = rows - state_->num_rows();
    if (more <= 0) return Status();
    // Stripes fill unevenly: four standard deviations over the mean hold all of them.
    const double mean = static_cast<double>(more) / kStripes;
    const int64_t of_stripe = static_cast<int64_t>(mean + 4 * std::sqrt(mean)) + 1;
    StripedIndex& index = state_->index;
    int64_t index_bytes = 0;
    for (int s = 0; s < kStripes; ++s) index_bytes += index.GrowthBytes(s, of_stripe);
    int64_t left = 0;
    std::atomic<bool> ok{state_->rows.Grant(more, index_bytes, config_.memory, &left) && state_->rows.Reserve(more)};
    if (ok) {
      pf.Run(kStripes, index_bytes / kStripes, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          if (!index.PrepareGrowth(static_cast<int>(s), of_stripe)) ok = false;
        }
      });
    }
    for (int s = 0; s < kStripes; ++s) {
      RoomGuard guard(room_, RoomLock::kWriting);
      if (ok) index.CommitGrowth(s);
      index.DropGrowth(s);
    }
    if (ok) return Status();
    return Status(StatusCode::kResourceExhausted,
                  "Table '" + options_.name + "': room for " + std::to_string(rows) + " rows takes " +
                      std::to_string(state_->rows.CommitBytes(more) + index_bytes) +
                      " bytes more, which this machine or its cgroup does not have left");
  });
}

Status CpuTable::Clear(uint32_t field) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "Clear"));
  std::lock_guard<std::mutex> lock(writer_);
  edits_.Note(field);
  if (state_->num_fields > 1) {
    const FieldState& before = state_->fields[state_->active[field]];
    state_->fields[state_->OtherId(state_->active[field])].Start(before.seed, before.step, before.evicted);
    Exchange({field});
    RemoveInactive({field});
    return Status();
  }
  RoomGuard guard(room_, RoomLock::kWriting);
  state_->index.Clear();
  state_->rows.Clear();
  state_->fields[0].rows = 0;
  state_->fields[0].pending = 0;
  state_->fields[0].queue.Clear();
  state_->readable_end = kFirstRow;
  ++epoch_;
  return Status();
}

TableStats CpuTable::Stats() const {
  std::lock_guard<std::mutex> lock(writer_);
  TableStats stats;
  stats.rows = state_->num_rows();
  stats.pending = state_->num_pending();
  stats.index_capacity = state_->index.capacity();
  stats.bytes = state_->index.bytes() + state_->rows.bytes();
  stats.disk_bytes = state_->rows.disk_bytes();
  for (const FieldState& field : state_->fields) stats.bytes += field.queue.bytes();
  for (const uint32_t id : state_->active) {
    stats.evicted += state_->fields[id].evicted;
    stats.step = std::max<int64_t>(stats.step, state_->fields[id].step);
  }
  return stats;
}

Status CpuTable::FieldStats(uint32_t field, TableStats* stats) const {
  TFB_RETURN_IF_ERROR(CheckDistinct(options_, {field}, "FieldStats"));
  std::lock_guard<std::mutex> lock(writer_);
  const FieldState& state = state_->fields[state_->active[field]];
  stats->rows = state.rows;
  stats->pending = state.pending;
  stats->evicted = state.evicted;
  stats->step = state.step;
  const double keys = static_cast<double>(state_->num_rows() + state_->num_pending());
  const double share = keys == 0 ? 1.0 / state_->num_fields : static_cast<double>(stats->rows + stats->pending) / keys;
  const auto part = [share](int64_t whole) { return std::llround(share * static_cast<double>(whole)); };
  stats->index_capacity = part(state_->index.capacity());
  stats->bytes = part(state_->index.bytes() + state_->rows.bytes()) + state.queue.bytes();
  stats->disk_bytes = part(state_->rows.disk_bytes());
  return Status();
}

int64_t CpuTable::FieldSize(uint32_t field) const {
  RoomGuard guard(room_, RoomLock::kReading);
  return field < state_->num_fields ? state_->fields[state_->active[field]].rows.load() : 0;
}

}  // namespace tf_booster
