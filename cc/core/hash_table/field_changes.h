// What changed in a field of a table since a mark. An update leaves its step in the rows that it changed; nothing tells
// of rows that left, or were changed by another method, but the counts here.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_FIELD_CHANGES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_FIELD_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tf_booster {

// Where a field stands. As it is made: before all that there is.
struct FieldMark {
  int64_t step = -1;
  int64_t edits = 0;    // Calls of other methods than Update that may have changed it.
  int64_t evicted = 0;  // Rows that its policy has removed.
};

struct FieldChanges {
  uint32_t field = 0;
  FieldMark since;        // Those of later updates are wanted. After Settle with the step -1: all rows.
  bool all_keys = false;  // Whether all keys of the field are wanted, too, so that others can be known to have left.
  FieldMark now;

  // Fills in `now`; where the rows' steps do not tell all, asks for more.
  void Settle(const FieldMark& stands) {
    now = stands;
    if (since.step < 0 || since.step > now.step || since.edits != now.edits) since.step = -1;
    all_keys |= since.step < 0 || since.evicted != now.evicted;
  }
};

inline std::vector<uint32_t> FieldsOf(const std::vector<FieldChanges>& changes) {
  std::vector<uint32_t> fields;
  for (const FieldChanges& field : changes) fields.push_back(field.field);
  return fields;
}

// The edits of a table's fields. Its methods count them, one at a time.
class EditCounts {
 public:
  explicit EditCounts(size_t fields) : counts_(fields, 0) {}

  void Note(uint32_t field) { ++counts_[field]; }
  void NoteAll() {
    for (int64_t& count : counts_) ++count;
  }
  int64_t of(uint32_t field) const { return counts_[field]; }

 private:
  std::vector<int64_t> counts_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_FIELD_CHANGES_H_
