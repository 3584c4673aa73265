#include "cc/core/hash_table/argument_checks.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "cc/core/base/page_file.h"
#include "cc/core/hash_table/admission.h"
#include "cc/core/hash_table/count_pool.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

// Rows of at most 16 MiB: what a row takes has to fit the arithmetic of slabs, and nobody means more.
constexpr int64_t kMaxRowValues = int64_t{1} << 22;
// Each has two ids, and all of them are below kNoField.
constexpr size_t kMaxFields = size_t{1} << 30;

Status Invalid(const std::string& name, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, "Table '" + name + "': " + what);
}

Status CheckInitializer(const InitializerSpec& spec, const std::string& where) {
  const bool known = spec.kind == InitializerKind::kConstant || spec.kind == InitializerKind::kUniform ||
                     spec.kind == InitializerKind::kNormal || spec.kind == InitializerKind::kTruncatedNormal;
  if (!known) return Invalid(where, "unknown initializer kind " + std::to_string(static_cast<int>(spec.kind)));
  if (!std::isfinite(spec.a) || !std::isfinite(spec.b) || !std::isfinite(spec.b - spec.a)) {
    return Invalid(where, "the initializer's arguments are not finite");
  }
  if (spec.kind == InitializerKind::kUniform && spec.a > spec.b) {
    return Invalid(where, "uniform initializer: minimum " + std::to_string(spec.a) + " is above maximum " +
                              std::to_string(spec.b));
  }
  return Status();
}

Status CheckEviction(const EvictionOptions& eviction, const std::string& where) {
  if (eviction.max_idle_steps < 0 || eviction.max_rows < 0)
    return Invalid(where, "eviction limits must not be negative");
  if (eviction.max_idle_steps > 0 && eviction.max_rows > 0) {
    return Invalid(where, "eviction takes max_idle_steps or max_rows, not both");
  }
  if ((eviction.max_rows > 0) != (eviction.order != EvictionOrder::kNone)) {
    return Invalid(where, "eviction takes max_rows and an order (lru or lfu) together");
  }
  return Status();
}

Status CheckContents(const TableOptions& options, const ContentsIn& in) {
  const auto invalid = [&](const std::string& what) {
    return Status(StatusCode::kInvalidArgument,
                  "Table '" + options.name + "', field '" + options.fields[in.field].name + "': Import: " + what);
  };
  const size_t slots = options.slot_initial_values.size();
  if (in.rows < 0 || in.pending < 0) return invalid("a negative number of rows or pending keys");
  if (in.rows > 0 && (in.keys == nullptr || in.values == nullptr)) return invalid("rows without keys or values");
  if (in.pending > 0 && (in.pending_keys == nullptr || in.pending_counts == nullptr)) {
    return invalid("pending keys without keys or counts");
  }
  if (!in.slots.empty() && in.slots.size() != slots) {
    return invalid(std::to_string(in.slots.size()) + " slots, but the table has " + std::to_string(slots));
  }
  if (in.step < 0) return invalid("step " + std::to_string(in.step) + " is below 0");
  for (int64_t i = 0; i < in.rows; ++i) {
    if ((in.frequencies != nullptr && in.frequencies[i] < 0) || (in.last_steps != nullptr && in.last_steps[i] < 0)) {
      return invalid("key " + std::to_string(in.keys[i]) + " has a frequency or last-use step below 0");
    }
  }
  for (int64_t i = 0; i < in.pending; ++i) {
    if (in.pending_counts[i] < 1 || in.pending_counts[i] > kMaxMinFrequency) {
      return invalid("pending key " + std::to_string(in.pending_keys[i]) + " was seen " +
                     std::to_string(in.pending_counts[i]) + " times, not in [1, " + std::to_string(kMaxMinFrequency) +
                     "]");
    }
  }
  return Status();
}

}  // namespace

Status CheckOptions(const TableOptions& options) {
  const int64_t slots = static_cast<int64_t>(options.slot_initial_values.size());
  if (options.dim < 1)
    return Invalid(options.name, "dim is " + std::to_string(options.dim) + ", but must be at least 1");
  if (options.dim > kMaxRowValues / (1 + slots)) {
    return Invalid(options.name, "dim is " + std::to_string(options.dim) + ", but a row holds at most " +
                                     std::to_string(kMaxRowValues) + " values, slots included");
  }
  if (options.fields.empty() || options.fields.size() > kMaxFields) {
    return Invalid(options.name, "it has " + std::to_string(options.fields.size()) + " fields, but needs 1 to " +
                                     std::to_string(kMaxFields));
  }
  for (const FieldOptions& field : options.fields) {
    const std::string where = options.name + "', field '" + field.name;
    TFB_RETURN_IF_ERROR(CheckInitializer(field.initializer, where));
    TFB_RETURN_IF_ERROR(CheckEviction(field.eviction, where));
    if (field.min_frequency < 0 || field.min_frequency > kMaxMinFrequency) {
      return Invalid(where, "min_frequency is " + std::to_string(field.min_frequency) + ", but must be in [0, " +
                                std::to_string(kMaxMinFrequency) + "]");
    }
    if (field.max_rows < 0) return Invalid(where, "max_rows is " + std::to_string(field.max_rows) + ", below 0");
  }
  return Status();
}

Status CheckDiskFolder(const TableOptions& options, const std::string& folder) {
  std::string why;
  if (folder.empty() || PageFile::New(folder, &why) != nullptr) return Status();
  return Invalid(options.name,
                 "rows are to go to a disk, but " + why + "; name a folder that exists and may be written to");
}

Status CheckFields(const TableOptions& options, const KeyBatch& keys) {
  if (keys.size < 0) return Invalid(options.name, "a batch of " + std::to_string(keys.size) + " keys");
  uint32_t greatest = keys.field;
  if (keys.fields != nullptr) {
    greatest = 0;
    for (int64_t i = 0; i < keys.size; ++i) greatest = std::max(greatest, keys.fields[i]);
  }
  if (greatest < options.fields.size()) return Status();
  return Invalid(options.name, "a key is of field " + std::to_string(greatest) + ", but the table has " +
                                   std::to_string(options.fields.size()) + " fields");
}

Status CheckDistinct(const TableOptions& options, const std::vector<uint32_t>& fields, const char* method) {
  std::vector<bool> seen(options.fields.size(), false);
  for (const uint32_t field : fields) {
    if (field >= seen.size()) {
      return Invalid(options.name, std::string(method) + " of field " + std::to_string(field) + ", but the table has " +
                                       std::to_string(seen.size()) + " fields");
    }
    if (seen[field]) {
      return Invalid(options.name, std::string(method) + " names field " + std::to_string(field) + " twice");
    }
    seen[field] = true;
  }
  return Status();
}

Status CheckStepping(const TableOptions& options, const UpdateBatch& batch) {
  TFB_RETURN_IF_ERROR(CheckDistinct(options, batch.fields, "Update"));
  if (batch.fields.empty()) return Status();
  std::vector<bool> steps(options.fields.size(), false);
  for (const uint32_t field : batch.fields) steps[field] = true;
  for (int64_t i = 0; i < batch.keys.size; ++i) {
    if (steps[FieldOf(batch.keys, i)]) continue;
    return Invalid(options.name, "key " + std::to_string(batch.keys.keys[i]) + " is of field '" +
                                     options.fields[FieldOf(batch.keys, i)].name +
                                     "', which does not step with this update");
  }
  return Status();
}

Status CheckCounts(const TableOptions& options, const UpdateBatch& batch, int64_t* sightings) {
  if (batch.counts == nullptr) {
    if (sightings != nullptr) *sightings = batch.keys.size;
    return Status();
  }
  uint64_t any = 0, any_less_one = 0, sum = 0;  // In one pass, several counts at once.
  for (int64_t i = 0; i < batch.keys.size; ++i) {
    const uint64_t count = static_cast<uint64_t>(batch.counts[i]);
    any |= count;
    any_less_one |= count - 1;
    sum += count;
  }
  if ((any | any_less_one) <= INT64_MAX) {  // None is negative, or becomes so.
    if (sightings == nullptr) return Status();
    if (any >= CountPool::kPooled) {
      sum = 0;
      for (int64_t i = 0; i < batch.keys.size; ++i) sum += std::min<int64_t>(batch.counts[i], CountPool::kPooled);
    }
    *sightings = static_cast<int64_t>(sum);
    return Status();
  }
  for (int64_t i = 0; i < batch.keys.size; ++i) {
    if (batch.counts[i] >= 1) continue;
    return Status(StatusCode::kInvalidArgument, "Table '" + options.name + "': key " +
                                                    std::to_string(batch.keys.keys[i]) + " was seen " +
                                                    std::to_string(batch.counts[i]) + " times; counts are at least 1");
  }
  return Status();
}

Status NextPiece(const TableOptions& options, const ContentsSource& source, ContentsIn* piece) {
  *piece = ContentsIn();
  TFB_RETURN_IF_ERROR(source.next(piece));
  piece->field = source.field;
  piece->step = source.step;
  return CheckContents(options, *piece);
}

Status LimitReached(const TableOptions& options, const FieldOptions& field, int64_t rows, int64_t new_rows) {
  return Status(StatusCode::kResourceExhausted,
                "Table '" + options.name + "', field '" + field.name + "': it has " + std::to_string(rows) +
                    " rows and the batch brings " + std::to_string(new_rows) + " new ones, but max_rows is " +
                    std::to_string(field.max_rows) + "; raise max_rows, or choose an eviction policy");
}

Status OccursTwice(const TableOptions& options, int64_t key) {
  return Invalid(options.name,
                 "key " + std::to_string(key) + " occurs twice, but keys must be distinct; deduplicate them first");
}

uint32_t FirstEpoch() {
  static std::atomic<uint64_t> tables{0};
  return static_cast<uint32_t>(Mix64(++tables));
}

}  // namespace tf_booster
