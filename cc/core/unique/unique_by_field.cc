#include "cc/core/unique/unique_by_field.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "cc/core/unique/unique.h"

namespace tf_booster {
namespace {

// From so many ids on a field has all threads to itself; below, Unique would use one, and fields share the threads.
constexpr int64_t kLarge = 1 << 15;
constexpr int64_t kUniqueNs = 7;  // An id.
constexpr int64_t kMissing = -1;  // An id that is none, and its place.

struct Field {
  std::vector<const FieldIds*> arrays;
  int64_t size = 0;
  int64_t start = 0;                 // Of its pairs.
  std::vector<int64_t> ids, counts;  // Distinct ones.
  bool misses = false;               // Some ids are none.
  Status status;
};

int64_t CountMissing(const FieldIds& array) {
  return array.skip_missing ? std::count(array.ids, array.ids + array.size, kMissing) : 0;
}

std::vector<Field> Grouped(const std::vector<FieldIds>& arrays) {
  std::vector<Field> fields;
  std::unordered_map<uint32_t, size_t> place;
  for (const FieldIds& array : arrays) {
    const auto [found, is_new] = place.try_emplace(array.field, fields.size());
    if (is_new) fields.emplace_back();
    Field& field = fields[found->second];
    const int64_t missing = CountMissing(array);
    field.arrays.push_back(&array);
    field.size += array.size - missing;
    field.misses |= missing > 0;
  }
  return fields;
}

// Distinct ids of one field, with places from 0 on in every array's idx.
Status UniqueOfField(Field* field, bool with_counts, ParallelFor& pf) {
  const int64_t* ids = field->arrays[0]->ids;
  int64_t* idx = field->arrays[0]->idx;
  std::vector<int64_t> all, all_idx;
  const bool copies = field->arrays.size() > 1 || field->misses;
  if (copies) {
    all.reserve(field->size);
    for (const FieldIds* array : field->arrays) {
      const int64_t *const begin = array->ids, *const end = begin + array->size;
      if (array->skip_missing) {
        std::copy_if(begin, end, std::back_inserter(all), [](int64_t id) { return id != kMissing; });
      } else {
        all.insert(all.end(), begin, end);
      }
    }
    all_idx.resize(field->size);
    ids = all.data();
    idx = all_idx.data();
  }
  UniqueOptions options;
  options.with_counts = with_counts;
  const auto allocate = [&](int64_t u, int64_t** values, int64_t** counts) {
    field->ids.resize(u);
    *values = field->ids.data();
    if (!with_counts) return Status();
    field->counts.resize(u);
    *counts = field->counts.data();
    return Status();
  };
  TFB_RETURN_IF_ERROR((Unique<int64_t, int64_t>(ids, field->size, options, idx, allocate, pf)));
  if (!copies) return Status();
  for (const FieldIds* array : field->arrays) {
    if (array->skip_missing) {
      for (int64_t i = 0; i < array->size; ++i) array->idx[i] = array->ids[i] == kMissing ? kMissing : *idx++;
    } else {
      std::copy_n(idx, array->size, array->idx);
      idx += array->size;
    }
  }
  return Status();
}

// The ordinary table's way, without copies.
Status UniqueOfOne(const FieldIds& array, int64_t first, bool with_counts,
                   FunctionRef<Status(int64_t u, DistinctPairs* out)> allocate, ParallelFor& pf) {
  UniqueOptions options;
  options.first = first;
  options.with_counts = with_counts;
  const auto allocate_ids = [&](int64_t u, int64_t** ids, int64_t** counts) {
    DistinctPairs out;
    TFB_RETURN_IF_ERROR(allocate(u, &out));
    std::fill_n(out.fields, u, array.field);
    *ids = out.ids;
    if (with_counts) *counts = out.counts;
    return Status();
  };
  return Unique<int64_t, int64_t>(array.ids, array.size, options, array.idx, allocate_ids, pf);
}

}  // namespace

Status UniqueByField(const std::vector<FieldIds>& arrays, int64_t first, bool with_counts,
                     FunctionRef<Status(int64_t u, DistinctPairs* out)> allocate, ParallelFor& pf) {
  if (arrays.size() == 1 && CountMissing(arrays[0]) == 0) {
    return UniqueOfOne(arrays[0], first, with_counts, allocate, pf);
  }
  std::vector<Field> fields = Grouped(arrays);
  const int64_t n = static_cast<int64_t>(fields.size());
  int64_t small = 0;
  for (Field& field : fields) {
    if (field.size >= kLarge || n == 1) {
      field.status = UniqueOfField(&field, with_counts, pf);
    } else {
      small += field.size;
    }
  }
  const auto for_small = [&](int64_t cost_ns, auto visit) {
    pf.Run(n, 1 + small * cost_ns / std::max<int64_t>(n, 1), [&](int64_t begin, int64_t end) {
      for (int64_t f = begin; f < end; ++f) {
        if (fields[f].size < kLarge && n > 1) visit(fields[f]);
      }
    });
  };
  for_small(kUniqueNs, [&](Field& field) {
    SerialFor serial;
    field.status = UniqueOfField(&field, with_counts, serial);
  });
  int64_t u = 0;
  for (Field& field : fields) {
    TFB_RETURN_IF_ERROR(field.status);
    field.start = u;
    u += static_cast<int64_t>(field.ids.size());
  }
  DistinctPairs out;
  TFB_RETURN_IF_ERROR(allocate(u, &out));
  for (const Field& field : fields) {
    std::copy(field.ids.begin(), field.ids.end(), out.ids + field.start);
    std::fill_n(out.fields + field.start, field.ids.size(), field.arrays[0]->field);
    if (with_counts) std::copy(field.counts.begin(), field.counts.end(), out.counts + field.start);
  }
  for (Field& field : fields) {
    const int64_t base = first + field.start;
    if (base == 0) continue;
    for (const FieldIds* array : field.arrays) {
      pf.Run(array->size, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) array->idx[i] += array->idx[i] == kMissing ? 0 : base;
      });
    }
  }
  return Status();
}

}  // namespace tf_booster
