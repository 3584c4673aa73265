// Where the values of sparse and ragged features, and of feature lists, belong: indices and shape, or row_splits. They
// follow from the lengths of the records' lists, and many features of a batch have the same ones: one id in each
// record, or lists that go together, as a history's items and times. Such features share one tensor; nobody writes to a
// tensor that others hold. Lists that all have one length, the same in batch after batch, share it with the batches
// before, too.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_LIST_PLACES_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_LIST_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "cc/core/example_batch/list_sizes.h"
#include "cc/core/example_parser/example_parser.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

// Of a feature list: kStepSparse, for values by record, step and place in the step; kSplits for the steps of records,
// kStepSplits for the values of steps.
enum class PlaceKind : uint8_t { kSparse, kSplits32, kSplits64, kStepSparse, kStepSplits32, kStepSplits64 };

struct ListPlaces {
  tensorflow::Tensor rows;   // Sparse: indices [values, 2], or [values, 3]. Ragged: row_splits [records or steps + 1].
  tensorflow::Tensor shape;  // Sparse: [2], records and longest list; or [3], records, most steps, longest step.
};

// What the places depend on. If all lists have one length, on nothing else. A step is a list of its own here; only the
// places of kStepSparse depend on the records that steps belong to, too.
struct ListLengths {
  PlaceKind kind;
  ListSizes sizes;

  bool constant() const { return kind != PlaceKind::kStepSparse && sizes.constant(); }
  bool operator==(const ListLengths& other) const { return kind == other.kind && sizes == other.sizes; }
};

// Places of the last batches, for lists that all have one length. Any thread may call.
class ConstantPlaces {
 public:
  // False: not kept.
  bool Find(const ListLengths& lengths, ListPlaces* places);
  void Keep(const ListLengths& lengths, const ListPlaces& places);

 private:
  static constexpr size_t kMost = 4;
  static constexpr size_t kMostBytes = 8 << 20;  // Of one: memory that stays with the parser.

  std::mutex mutex_;
  std::vector<std::pair<ListLengths, ListPlaces>> kept_;  // The last one used at the end.
};

// The places of one batch. Add all features, then Fill each distinct place, on any threads, then Of.
class BatchPlaces {
 public:
  BatchPlaces(absl::Span<example_parser::ParsedSlice* const> slices, ConstantPlaces* constant)
      : slices_(slices), constant_(constant) {}

  // The number of the place that the feature belongs to. `sizes`: of its lists in all slices, or, of the step kinds, of
  // its steps.
  size_t Add(size_t feature, PlaceKind kind, const ListSizes& sizes);
  ListSizes Measure(size_t feature, PlaceKind kind) const;

  size_t size() const { return places_.size(); }
  tensorflow::Status Fill(size_t place);
  // Indices and splits that Fill will have to write; none for those that are kept.
  size_t NumToWrite() const;
  const ListPlaces& Of(size_t place) const { return places_[place].tensors; }

 private:
  struct Place {
    size_t feature;  // The first one.
    ListLengths lengths;
    ListPlaces tensors;
  };

  bool SameLists(size_t a, size_t b, PlaceKind kind) const;
  tensorflow::Status FillStepSparse(size_t feature, const ListSizes& sizes, ListPlaces* tensors) const;

  const absl::Span<example_parser::ParsedSlice* const> slices_;
  ConstantPlaces* const constant_;
  std::vector<Place> places_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_LIST_PLACES_H_
