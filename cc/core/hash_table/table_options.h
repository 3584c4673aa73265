// What a table is told when it is made.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_OPTIONS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tf_booster {

// The distribution of a new row's values. `a` and `b` are
//   constant: the value, unused;   uniform: minimum, maximum (excluded);   normal and truncated normal: mean, stddev.
enum class InitializerKind : int32_t { kConstant = 0, kUniform = 1, kNormal = 2, kTruncatedNormal = 3 };

struct InitializerSpec {
  InitializerKind kind = InitializerKind::kConstant;
  float a = 0.0f;
  float b = 0.0f;
};

enum class EvictionOrder : int32_t { kNone = 0, kLru = 1, kLfu = 2 };

// Which rows leave after a step. At most one of the two is set.
struct EvictionOptions {
  int64_t max_idle_steps = 0;  // > 0: rows not used in the last `max_idle_steps` steps leave.
  int64_t max_rows = 0;        // > 0: rows leave in `order` until at most so many remain.
  EvictionOrder order = EvictionOrder::kNone;

  bool enabled() const { return max_idle_steps > 0 || max_rows > 0; }
};

// One feature's share of a table. An ordinary table has one field; a fused table has one for each original table, and
// its keys are pairs (field, id), so ids of two fields never meet.
struct FieldOptions {
  std::string name;  // In error messages, and in the derivation of initial values.
  uint64_t seed = 0;
  InitializerSpec initializer;
  int64_t min_frequency = 0;  // A key is admitted once it was seen so often; 0 and 1 admit at once.
  int64_t max_rows = 0;       // > 0: an insert beyond so many rows fails with ResourceExhausted. 0: no limit.
  EvictionOptions eviction;
};

struct TableOptions {
  std::string name;
  int64_t dim = 0;                         // Columns of an embedding, at least 1.
  std::vector<float> slot_initial_values;  // One for each optimizer slot; a slot has `dim` columns.
  std::vector<FieldOptions> fields;        // At least one.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_TABLE_OPTIONS_H_
