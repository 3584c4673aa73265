// What changed in a field of a table since a mark. An update leaves its step in the rows that it changed. Keys that an
// eviction removes are listed for whoever asks for it beforehand; what else removes or changes rows is only counted.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_FIELD_CHANGES_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_FIELD_CHANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tf_booster {

// Where a field stands. As it is made: before all that there is.
struct FieldMark {
  int64_t step = -1;
  int64_t edits = 0;                // Calls of other methods than Update that may have changed it.
  int64_t evicted = 0;              // Rows that its policy has removed.
  int64_t listed_from = INT64_MAX;  // Keys of these are known, from this one on.

  bool operator==(const FieldMark& other) const {
    return step == other.step && edits == other.edits && evicted == other.evicted && listed_from == other.listed_from;
  }
};

struct FieldChanges {
  uint32_t field = 0;
  FieldMark since;         // Those of later updates are wanted. After Settle with the step -1: all rows.
  bool all_keys = false;   // Whether all keys of the field are wanted, so that others can be known to have left.
  bool left_keys = false;  // After Settle: whether in their place there are those that left. Some may be back.
  FieldMark now;

  // Fills in `now`; where steps and lists do not tell all, asks for more.
  void Settle(const FieldMark& stands) {
    now = stands;
    if (since.step < 0 || since.step > now.step || since.edits != now.edits) since.step = -1;
    all_keys |= since.step < 0 || (since.evicted != now.evicted && since.evicted < now.listed_from);
    left_keys = !all_keys && since.evicted != now.evicted;
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

// Where the keys that left a field last are kept: that of the n-th eviction, counted from 0, at n modulo the size.
struct LeftKeysRing {
  int64_t* keys = nullptr;
  int64_t size = 0;
  int64_t begin = 0;  // The first that was kept.

  // For a field of so many rows: 1 byte a row, or 512 KiB.
  static int64_t SizeFor(int64_t rows) { return std::max(int64_t{1} << 16, rows / 8); }
  int64_t ListedFrom(int64_t evicted) const {
    return size == 0 ? FieldMark().listed_from : std::max(begin, evicted - size);
  }
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_FIELD_CHANGES_H_
