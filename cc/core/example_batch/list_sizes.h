// How long a feature's lists are, in the records of a batch or of a part of it; and what that says about the next
// batch.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_LIST_SIZES_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_LIST_SIZES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tf_booster {

struct ListSizes {
  size_t records = 0;
  size_t values = 0;
  uint32_t shortest = UINT32_MAX;
  uint32_t longest = 0;

  bool constant() const { return shortest >= longest; }
  bool operator==(const ListSizes& other) const {
    return records == other.records && values == other.values && shortest == other.shortest && longest == other.longest;
  }
  void Add(const uint32_t* lengths, size_t n) {
    uint64_t sum = 0;
    uint32_t least = shortest, most = longest;
    for (size_t i = 0; i < n; ++i) {
      sum += lengths[i];
      least = std::min(least, lengths[i]);
      most = std::max(most, lengths[i]);
    }
    records += n;
    values += sum;
    shortest = least;
    longest = most;
  }
  void Add(const ListSizes& other) {
    records += other.records;
    values += other.values;
    shortest = std::min(shortest, other.shortest);
    longest = std::max(longest, other.longest);
  }
};

// Of a feature list: values of records, whose lists have `lists` of steps, which have `steps` of values. `shortest` and
// `longest` are bounds.
inline ListSizes ValuesOfRecords(const ListSizes& lists, const ListSizes& steps) {
  ListSizes values = lists;
  values.values = steps.values;
  if (lists.records == 0 || steps.records == 0) {
    values.shortest = values.longest = 0;
    return values;
  }
  const auto product = [](uint64_t a, uint64_t b) {
    return static_cast<uint32_t>(std::min<uint64_t>(a * b, UINT32_MAX));
  };
  values.shortest = product(lists.shortest, steps.shortest);
  values.longest = product(lists.longest, steps.longest);
  return values;
}

// Where the values of each row will begin, if lists are as they were the last time: exactly, if all had one length;
// otherwise with room for what `rows` of them vary, three standard deviations if lengths are spread evenly.
class ListForecast {
 public:
  ListForecast() = default;
  ListForecast(const ListSizes& last, size_t rows) {
    if (last.records == 0) return;
    known_ = true;
    per_row_ = static_cast<double>(last.values) / last.records;
    if (last.constant()) return;
    const double spread = 0.29 * (last.longest - last.shortest);
    per_row_ += std::min(per_row_ / 4, 3 * spread / std::sqrt(static_cast<double>(std::max<size_t>(1, rows))));
    more_ = 16;
  }

  bool known() const { return known_; }
  size_t ValuesBefore(size_t row) const { return static_cast<size_t>(row * per_row_ + 0.5) + (row > 0 ? more_ : 0); }

 private:
  bool known_ = false;
  double per_row_ = 0;
  size_t more_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_BATCH_LIST_SIZES_H_
