#include "cc/core/columns/crosses.h"

#include <algorithm>
#include <limits>

#include "cc/core/base/job_ranges.h"

namespace tf_booster {
namespace {

constexpr int64_t kRowsAtOnce = 512;  // Their results stay in the first-level cache from key to key.

uint64_t ShiftMix(uint64_t bits) { return bits ^ (bits >> 47); }

// The fingerprint of two, the second behind the first.
uint64_t Mixed(uint64_t first, uint64_t second) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995ULL;
  const uint64_t both = ((first ^ kFactor) ^ (ShiftMix(second * kFactor) * kFactor)) * kFactor;
  return ShiftMix(ShiftMix(both) * kFactor);
}

void IntoBuckets(const Cross& cross, uint64_t* hashes, int64_t n) {
  const auto buckets = static_cast<uint64_t>(cross.buckets > 0 ? cross.buckets : std::numeric_limits<int64_t>::max());
  for (int64_t i = 0; i < n; ++i) hashes[i] %= buckets;
}

// Of rows that have one value of each key.
void WriteSingles(const Cross& cross, int64_t begin, int64_t end) {
  for (; begin < end; begin += kRowsAtOnce) {
    const int64_t n = std::min(end - begin, kRowsAtOnce);
    uint64_t* hashes = reinterpret_cast<uint64_t*>(cross.values) + begin;
    std::fill(hashes, hashes + n, cross.hash_key);
    for (const CrossKey& key : cross.keys) {
      const uint64_t* values = key.values + begin;
      for (int64_t i = 0; i < n; ++i) hashes[i] = Mixed(hashes[i], values[i]);
    }
    IntoBuckets(cross, hashes, n);
    for (int64_t row = begin; row < begin + n; ++row) {
      cross.indices[2 * row] = row;
      cross.indices[2 * row + 1] = 0;
    }
  }
}

void WriteRow(const Cross& cross, int64_t row) {
  const int64_t first = cross.starts.empty() ? row * cross.of_row : cross.starts[row];
  const int64_t total = cross.starts.empty() ? cross.of_row : cross.starts[row + 1] - first;
  if (total == 0) return;
  uint64_t* hashes = reinterpret_cast<uint64_t*>(cross.values) + first;
  hashes[0] = cross.hash_key;
  int64_t n = 1;
  for (const CrossKey& key : cross.keys) {
    const uint64_t* values = key.values + key.First(row);
    const int64_t count = key.Count(row);
    // From the last to the first: what a prefix becomes lies behind all prefixes before it.
    for (int64_t prefix = n - 1; prefix >= 0; --prefix) {
      const uint64_t hash = hashes[prefix];
      for (int64_t i = 0; i < count; ++i) hashes[prefix * count + i] = Mixed(hash, values[i]);
    }
    n *= count;
  }
  IntoBuckets(cross, hashes, n);
  int64_t* indices = cross.indices + 2 * first;
  for (int64_t place = 0; place < n; ++place) {
    *indices++ = row;
    *indices++ = place;
  }
}

bool IsOneEach(const Cross& cross) {
  return std::all_of(cross.keys.begin(), cross.keys.end(),
                     [](const CrossKey& key) { return key.starts == nullptr && key.of_row == 1; });
}

// How many results a row has; −1 if they are more than an int64 counts.
int64_t CountOfRow(const Cross& cross, int64_t row) {
  int64_t count = 1;
  bool is_too_many = false;
  for (const CrossKey& key : cross.keys) {
    const int64_t of_key = key.Count(row);
    if (of_key == 0) return 0;
    is_too_many |= __builtin_mul_overflow(count, of_key, &count);
  }
  return is_too_many ? -1 : count;
}

}  // namespace

bool CountCrosses(Cross* cross) {
  cross->starts.clear();
  cross->of_row = cross->total = 0;
  if (cross->rows == 0) return true;
  const bool is_even =
      std::all_of(cross->keys.begin(), cross->keys.end(), [](const CrossKey& key) { return key.starts == nullptr; });
  if (is_even) {
    cross->of_row = CountOfRow(*cross, 0);
    return cross->of_row >= 0 && !__builtin_mul_overflow(cross->of_row, cross->rows, &cross->total) &&
           cross->total <= kMostResults;
  }
  cross->starts.reserve(cross->rows + 1);
  cross->starts.push_back(0);
  for (int64_t row = 0; row < cross->rows; ++row) {
    const int64_t count = CountOfRow(*cross, row);
    if (count < 0 || count > kMostResults - cross->total) return false;
    cross->total += count;
    cross->of_row = std::max(cross->of_row, count);
    cross->starts.push_back(cross->total);
  }
  return true;
}

void WriteCrosses(const std::vector<Cross>& all, ParallelFor& pf) {
  int64_t ns = 0;
  std::vector<int64_t> rows;
  for (const Cross& cross : all) {
    ns += cross.rows + cross.total * (5 + 2 * static_cast<int64_t>(cross.keys.size()));
    rows.push_back(cross.rows);
  }
  JobRanges(rows, ns).Run(pf, [&](size_t i, int64_t begin, int64_t end) {
    if (IsOneEach(all[i])) return WriteSingles(all[i], begin, end);
    for (int64_t row = begin; row < end; ++row) WriteRow(all[i], row);
  });
}

}  // namespace tf_booster
