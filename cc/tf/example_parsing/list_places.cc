#include "cc/tf/example_parsing/list_places.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/tf/example_parsing/batch_outputs.h"

namespace tf_booster {
namespace {

using example_parser::ParsedSlice;
using tensorflow::Tensor;
using Slices = absl::Span<ParsedSlice* const>;

using Lengths = example_parser::ValueArray<uint32_t>;

const Lengths& LengthsOf(const ParsedSlice& slice, size_t feature, PlaceKind kind) {
  const bool of_steps = kind >= PlaceKind::kStepSparse;
  return of_steps ? slice.step_lengths(feature) : slice.lengths(feature);
}

bool SameLengths(const Lengths& a, const Lengths& b) {
  return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(uint32_t)) == 0);
}

template <class Split>
void FillSplits(Slices slices, size_t feature, PlaceKind kind, Split* splits) {
  Split end = 0;
  *splits++ = 0;
  for (const ParsedSlice* slice : slices) {
    for (const uint32_t length : LengthsOf(*slice, feature, kind)) *splits++ = end += static_cast<Split>(length);
  }
}

void FillStepIndices(Slices slices, size_t feature, int64_t* indices) {
  int64_t record = 0;
  for (const ParsedSlice* slice : slices) {
    const uint32_t* values = slice->step_lengths(feature).data();
    for (const uint32_t steps : slice->lengths(feature)) {
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t length = *values++;
        for (int64_t i = 0; i < length; ++i, indices += 3) {
          indices[0] = record;
          indices[1] = step;
          indices[2] = i;
        }
      }
      ++record;
    }
  }
}

// From this size on indices go past the caches: what is written so far behind is out of them before anybody reads it,
// and ordinary stores would first fetch each line.
constexpr size_t kStreamedBytes = 256 << 10;

template <bool streamed>
void FillIndices(Slices slices, size_t feature, int64_t* indices) {
  __m128i* out = reinterpret_cast<__m128i*>(indices);
  int64_t record = 0;
  for (const ParsedSlice* slice : slices) {
    for (const uint32_t length : slice->lengths(feature)) {
      for (int64_t i = 0; i < length; ++i, ++out) {
        const __m128i index = _mm_set_epi64x(i, record);
        streamed ? _mm_stream_si128(out, index) : _mm_store_si128(out, index);
      }
      ++record;
    }
  }
  if (streamed) _mm_sfence();
}

}  // namespace

bool ConstantPlaces::Find(const ListLengths& lengths, ListPlaces* places) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = kept_.size(); i-- > 0;) {
    if (!(kept_[i].first == lengths)) continue;
    *places = kept_[i].second;
    std::rotate(kept_.begin() + i, kept_.begin() + i + 1, kept_.end());
    return true;
  }
  return false;
}

void ConstantPlaces::Keep(const ListLengths& lengths, const ListPlaces& places) {
  if (places.rows.TotalBytes() > kMostBytes) return;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& kept : kept_) {
    if (kept.first == lengths) return;  // Another batch was quicker.
  }
  if (kept_.size() == kMost) kept_.erase(kept_.begin());
  kept_.emplace_back(lengths, places);
}

ListSizes BatchPlaces::Measure(size_t feature, PlaceKind kind) const {
  ListSizes found;
  for (const ParsedSlice* slice : slices_) {
    const Lengths& lengths = LengthsOf(*slice, feature, kind);
    found.Add(lengths.data(), lengths.size());
  }
  return found;
}

bool BatchPlaces::SameLists(size_t a, size_t b, PlaceKind kind) const {
  for (const ParsedSlice* slice : slices_) {
    if (!SameLengths(LengthsOf(*slice, a, kind), LengthsOf(*slice, b, kind))) return false;
    if (kind == PlaceKind::kStepSparse && !SameLengths(slice->lengths(a), slice->lengths(b))) return false;
  }
  return true;
}

size_t BatchPlaces::Add(size_t feature, PlaceKind kind, const ListSizes& sizes) {
  const ListLengths lengths = {kind, sizes};
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].lengths == lengths && (lengths.constant() || SameLists(places_[i].feature, feature, kind))) return i;
  }
  places_.push_back({feature, lengths, {}});
  return places_.size() - 1;
}

tensorflow::Status BatchPlaces::FillStepSparse(size_t feature, const ListSizes& sizes, ListPlaces* tensors) const {
  TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {static_cast<int64_t>(sizes.values), 3}, &tensors->rows));
  FillStepIndices(slices_, feature, tensors->rows.flat<int64_t>().data());
  TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {3}, &tensors->shape));
  const ListSizes steps = Measure(feature, PlaceKind::kSplits64);  // Of records.
  auto shape = tensors->shape.vec<int64_t>();
  shape(0) = steps.records;
  shape(1) = steps.longest;
  shape(2) = sizes.longest;
  return tensorflow::OkStatus();
}

size_t BatchPlaces::NumToWrite() const {
  size_t n = 0;
  for (const Place& place : places_) {
    const PlaceKind kind = place.lengths.kind;
    const ListSizes& sizes = place.lengths.sizes;
    const bool sparse = kind == PlaceKind::kSparse || kind == PlaceKind::kStepSparse;
    if (!place.lengths.constant()) n += sparse ? sizes.values : sizes.records;
  }
  return n;
}

tensorflow::Status BatchPlaces::Fill(size_t index) {
  Place& place = places_[index];
  const ListLengths& lengths = place.lengths;
  const bool constant = lengths.constant();
  if (constant && constant_->Find(lengths, &place.tensors)) return tensorflow::OkStatus();
  const int64_t records = lengths.sizes.records, values = lengths.sizes.values;
  Tensor* rows = &place.tensors.rows;
  if (lengths.kind == PlaceKind::kSparse) {
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {values, 2}, rows));
    const bool streamed = rows->TotalBytes() >= kStreamedBytes;
    (streamed ? FillIndices<true> : FillIndices<false>)(slices_, place.feature, rows->flat<int64_t>().data());
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {2}, &place.tensors.shape));
    place.tensors.shape.vec<int64_t>()(0) = records;
    place.tensors.shape.vec<int64_t>()(1) = lengths.sizes.longest;
  } else if (lengths.kind == PlaceKind::kStepSparse) {
    TF_RETURN_IF_ERROR(FillStepSparse(place.feature, lengths.sizes, &place.tensors));
  } else if (lengths.kind == PlaceKind::kSplits32 || lengths.kind == PlaceKind::kStepSplits32) {
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT32, {records + 1}, rows));
    FillSplits(slices_, place.feature, lengths.kind, rows->vec<int32_t>().data());
  } else {
    TF_RETURN_IF_ERROR(AllocateTensor(tensorflow::DT_INT64, {records + 1}, rows));
    FillSplits(slices_, place.feature, lengths.kind, rows->vec<int64_t>().data());
  }
  if (constant) constant_->Keep(lengths, place.tensors);
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
