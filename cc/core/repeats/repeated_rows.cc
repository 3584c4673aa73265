#include "cc/core/repeats/repeated_rows.h"

#include <cstring>

#include "cc/core/hash_table/hash.h"
#include "cc/core/repeats/row_hash.h"

namespace tf_booster {
namespace {

struct Range {
  int64_t begin, end;
};

Range ItemsOf(const RowFeature& feature, int64_t row) {
  if (feature.entries != nullptr) return {feature.entries->begin(row), feature.entries->end(row)};
  return {row * feature.items_a_row, (row + 1) * feature.items_a_row};
}

int64_t ItemAt(const RowFeature& feature, int64_t place) {
  return feature.entries == nullptr ? place : feature.entries->entry(place);
}

uint64_t HashRow(const RowFeature& feature, int64_t row, uint64_t hash) {
  const Range items = ItemsOf(feature, row);
  // How many there are belongs to a row of a sparse feature; so does where a string ends.
  if (feature.entries != nullptr) hash = Fold(hash ^ static_cast<uint64_t>(items.end - items.begin), kRowHashFactor);
  for (int64_t place = items.begin; place < items.end; ++place) {
    const int64_t item = ItemAt(feature, place);
    if (feature.strings != nullptr) {
      const std::string_view text = feature.strings[item];
      hash = HashBytes(text.data(), static_cast<int64_t>(text.size()), hash ^ (text.size() * kRowHashStart));
    } else {
      hash = HashBytes(feature.bytes + item * feature.item_stride, feature.item_bytes, hash);
    }
  }
  return hash;
}

bool IsSame(const RowFeature& feature, int64_t row, int64_t other) {
  const Range a = ItemsOf(feature, row), b = ItemsOf(feature, other);
  if (a.end - a.begin != b.end - b.begin) return false;
  for (int64_t i = 0; i < a.end - a.begin; ++i) {
    const int64_t left = ItemAt(feature, a.begin + i), right = ItemAt(feature, b.begin + i);
    if (feature.strings != nullptr) {
      if (feature.strings[left] != feature.strings[right]) return false;
    } else if (std::memcmp(feature.bytes + left * feature.item_stride, feature.bytes + right * feature.item_stride,
                           feature.item_bytes) != 0) {
      return false;
    }
  }
  return true;
}

bool IsSame(const std::vector<RowFeature>& features, int64_t row, int64_t other) {
  for (const RowFeature& feature : features) {
    if (!IsSame(feature, row, other)) return false;
  }
  return true;
}

int64_t BitsFor(int64_t rows) {
  int64_t bits = 4;
  while ((int64_t{1} << bits) < 2 * rows) ++bits;
  return bits;
}

}  // namespace

RepeatedRows FindRepeatedRows(const std::vector<RowFeature>& features, int64_t rows, ParallelFor& pf) {
  std::vector<uint64_t> hashes(rows);
  constexpr int64_t kNsAFeature = 8;
  pf.Run(rows, kNsAFeature * static_cast<int64_t>(features.size()), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) hashes[row] = kRowHashStart;
    for (const RowFeature& feature : features) {
      for (int64_t row = begin; row < end; ++row) hashes[row] = HashRow(feature, row, hashes[row]);
    }
    for (int64_t row = begin; row < end; ++row) hashes[row] = Mix64(hashes[row]);
  });
  RepeatedRows found;
  found.row_of.resize(rows);
  const int64_t bits = BitsFor(rows), mask = (int64_t{1} << bits) - 1;
  std::vector<int32_t> places(int64_t{1} << bits, 0);  // By slot: place in first_rows + 1, or 0.
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t slot = static_cast<int64_t>(hashes[row] >> (64 - bits));; slot = (slot + 1) & mask) {
      if (places[slot] == 0) {
        found.first_rows.push_back(static_cast<int32_t>(row));
        places[slot] = static_cast<int32_t>(found.first_rows.size());
      } else {
        const int64_t first = found.first_rows[places[slot] - 1];
        if (hashes[first] != hashes[row] || !IsSame(features, first, row)) continue;
      }
      found.row_of[row] = places[slot] - 1;
      break;
    }
  }
  return found;
}

}  // namespace tf_booster
