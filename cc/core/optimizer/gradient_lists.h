// Which gradient rows belong to which key, in the order of their occurrence: a linked list a place, built in one pass.
//
// With several threads each takes a range of the codes and has heads of its own; a place's rows are then those of the
// first range, the second, …, so the order of the sum, and its bits, are the same for any number of threads.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_LISTS_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_LISTS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "cc/core/base/parallel_for.h"

namespace tf_booster {

class GradientLists {
 public:
  using Row = uint32_t;
  static constexpr Row kNone = ~Row{0};
  static constexpr int64_t kMaxRows = kNone;

  // place_of(i): the place of gradient row i, below `num_places`; -1: none; -2: wrong. Returns the first wrong row, or
  // -1.
  template <class PlaceOf>
  int64_t Build(int64_t num_rows, int64_t num_places, PlaceOf place_of, ParallelFor& pf) {
    num_rows_ = num_rows;
    num_places_ = num_places;
    parts_ = std::clamp<int64_t>(std::min<int64_t>(pf.num_threads(), num_rows / kRowsPerPart), 1, kMaxParts);
    heads_.reset(new Row[parts_ * num_places]);
    next_.reset(new Row[num_rows]);
    std::atomic<int64_t> first_wrong{num_rows};
    pf.Run(parts_, 1 + num_rows * 2 / parts_, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t wrong = BuildPart(part, place_of);
        int64_t lowest = first_wrong.load();
        while (wrong < lowest && !first_wrong.compare_exchange_weak(lowest, wrong)) {
        }
      }
    });
    return first_wrong.load() == num_rows ? -1 : first_wrong.load();
  }

  // The first gradient row of a place, or kNone.
  Row First(int64_t place) const {
    for (int64_t part = 0; part < parts_; ++part) {
      const Row head = heads_[part * num_places_ + place];
      if (head != kNone) return head;
    }
    return kNone;
  }

  // Calls fn(row) for each gradient row of a place after the first.
  template <class Fn>
  void ForOthers(int64_t place, Row first, Fn fn) const {
    for (int64_t part = 0; part < parts_; ++part) {
      for (Row row = heads_[part * num_places_ + place]; row != kNone; row = next_[row]) {
        if (row != first) fn(row);
      }
    }
  }

 private:
  static constexpr int64_t kRowsPerPart = 1 << 14;
  static constexpr int64_t kMaxParts = 8;

  // Backwards, so that each list comes out forwards. Returns the lowest wrong row, or num_rows_.
  template <class PlaceOf>
  int64_t BuildPart(int64_t part, PlaceOf place_of) {
    Row* heads = heads_.get() + part * num_places_;
    std::memset(static_cast<void*>(heads), 0xff, num_places_ * sizeof(Row));
    int64_t wrong = num_rows_;
    for (int64_t i = num_rows_ * (part + 1) / parts_; i-- > num_rows_ * part / parts_;) {
      const int64_t place = place_of(i);
      if (place >= 0) {
        next_[i] = heads[place];
        heads[place] = static_cast<Row>(i);
      } else if (place == -2) {
        wrong = i;
      }
    }
    return wrong;
  }

  int64_t num_rows_ = 0;
  int64_t num_places_ = 0;
  int64_t parts_ = 1;
  std::unique_ptr<Row[]> heads_;  // [parts_, num_places_]
  std::unique_ptr<Row[]> next_;   // [num_rows_]; undefined for rows without a place.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_GRADIENT_LISTS_H_
