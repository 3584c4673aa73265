// The preparation of lookups as bodies for the GPU. Rows and places of all lookups are numbered through, lookup after
// lookup: sorts and sums go over all of them at once.
//
//   keys        the row of each value that stays; the number of rows for those that do not
//   sort        stable, so values of a row keep their order
//   slots       how many places each row has; their sums are row_splits
//   filled      the id of each place
//   set, first  a hash set for each lookup: the first place of each id
//   numbers     the sum over first places: the number of each id
#ifndef TF_BOOSTER_CC_CORE_POOLING_PREPARE_BODY_H_
#define TF_BOOSTER_CC_CORE_POOLING_PREPARE_BODY_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "cc/core/gpu/atomics.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/scratch.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/pooling/prepare_gpu.h"

namespace tf_booster {
namespace gpu {

// Arrays over all lookups, in scratch memory.
struct PrepareArrays {
  int64_t values = 0, rows = 0, places = 0;  // How many there are; of places at most.
  uint64_t *keys = nullptr, *sorted_keys = nullptr;
  int32_t *order = nullptr, *sorted_order = nullptr;
  int32_t *slots = nullptr, *ends = nullptr;  // [rows]: places of a row; where they end.
  int64_t* filled = nullptr;                  // [places]
  float* weights = nullptr;
  int32_t* slot_of = nullptr;                    // [places]: where in its lookup's set the id is.
  int32_t *first = nullptr, *numbers = nullptr;  // [places]: 1 for a first place; sums of them.
  int32_t* sets = nullptr;                       // 1 + the first place of an id; 0 is empty.
  int32_t* counts = nullptr;                     // Two for each lookup, and the error.
  void* primitive_scratch = nullptr;
  int64_t set_words = 0;

  // The first of value `key` or above in keys.
  TFB_HOST_DEVICE int64_t LowerBound(uint64_t key) const {
    int64_t low = 0, high = values;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sorted_keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  TFB_HOST_DEVICE int64_t BeginOf(int64_t row) const { return row == 0 ? 0 : ends[row - 1]; }
  TFB_HOST_DEVICE int32_t NumbersBefore(int64_t place) const { return place == 0 ? 0 : numbers[place - 1]; }
};

template <class Source, class Id>
struct PrepareUnits {
  PrepareJob<Source, Id> job;
  int64_t lookup, first_value, first_row;
  int32_t* set;
  int64_t set_mask;
  int64_t units;

  TFB_HOST_DEVICE int64_t first_place(const PrepareArrays& all) const { return all.BeginOf(first_row); }
  TFB_HOST_DEVICE int64_t end_place(const PrepareArrays& all) const { return all.BeginOf(first_row + job.rows); }
};

// What every body has: the arrays once, instead of with each lookup, so that more lookups fit into a launch.
struct PrepareBody {
  PrepareArrays all;
  LookupRules rules;
};

struct WriteRowKeys : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE bool Kept(const Units& units, int64_t i) const {
    const auto& job = units.job;
    if (job.indices == nullptr && job.values[i] == -1) return false;
    if (rules.prune_ids && job.values[i] < 0) return false;
    return !(rules.prune_weights && job.weights != nullptr && !(job.weights[i] > 0.0f));
  }

  template <class Units>
  TFB_HOST_DEVICE static int64_t RowOf(const Units& units, int64_t i) {
    const auto& job = units.job;
    if (job.indices == nullptr) return i / job.width;
    const int64_t* coordinates = job.indices + i * job.rank;
    int64_t row = coordinates[0];
    for (int64_t d = 1; d < job.leading_dims; ++d) {
      // Unsigned: what overflows is outside of the batch, or is taken for a row of it as on the CPU.
      row = static_cast<int64_t>(static_cast<uint64_t>(row) * static_cast<uint64_t>(job.shape[d]) +
                                 static_cast<uint64_t>(coordinates[d]));
    }
    return row;
  }

  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    const int64_t value = units.first_value + i;
    uint64_t key = static_cast<uint64_t>(all.rows);
    if (Kept(units, i)) {
      const int64_t row = RowOf(units, i);
      const bool inside = row >= 0 && row < units.job.rows;
      const bool falls =
          !rules.fill_rows && i > 0 && units.job.indices != nullptr && Kept(units, i - 1) && RowOf(units, i - 1) > row;
      if (!inside || falls) {
        AtomicMax(&all.counts[0], static_cast<int32_t>(1 + 2 * units.lookup + (rules.fill_rows ? 0 : 1)));
      }
      if (inside) key = static_cast<uint64_t>(units.first_row + row);
    }
    all.keys[value] = key;
    all.order[value] = static_cast<int32_t>(value);
  }
};

// Unit: a row.
struct CountSlots : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t r) const {
    const uint64_t row = static_cast<uint64_t>(units.first_row + r);
    const int64_t count = all.LowerBound(row + 1) - all.LowerBound(row);
    if (rules.fill_rows) units.job.row_is_empty[r] = count == 0;
    all.slots[row] = static_cast<int32_t>(rules.fill_rows && count == 0 ? 1 : count);
  }
};

// Unit: a row, or the end.
struct WriteRowSplits : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t r) const {
    units.job.row_splits[r] = static_cast<int32_t>(all.BeginOf(units.first_row + r) - units.first_place(all));
  }
};

// Unit: a value of the lookup, in the order of rows.
struct PutValues : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    const int64_t k = all.LowerBound(static_cast<uint64_t>(units.first_row)) + i;
    if (k >= all.values) return;
    const int64_t row = static_cast<int64_t>(all.sorted_keys[k]);
    if (row >= units.first_row + units.job.rows) return;  // So many values did not stay.
    const int64_t place = all.BeginOf(row) + (k - all.LowerBound(static_cast<uint64_t>(row)));
    const int64_t from = all.sorted_order[k] - units.first_value;
    all.filled[place] = static_cast<int64_t>(units.job.values[from]);
    if (units.job.weights != nullptr) all.weights[place] = units.job.weights[from];
  }
};

// Unit: a row.
struct PutDefaults : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t r) const {
    if (!units.job.row_is_empty[r]) return;
    const int64_t place = all.BeginOf(units.first_row + r);
    all.filled[place] = units.job.default_id;
    if (units.job.weights != nullptr) all.weights[place] = 1.0f;
  }
};

// Unit: a place, of so many that the lookup may have.
struct FindFirst : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    const int64_t begin = units.first_place(all), place = begin + i;
    if (place >= units.end_place(all)) return;
    const int64_t id = all.filled[place];
    const int32_t mine = static_cast<int32_t>(i + 1);
    int64_t slot = static_cast<int64_t>(Mix64(static_cast<uint64_t>(id))) & units.set_mask;
    for (;; slot = (slot + 1) & units.set_mask) {
      // As EnterValue of unique_body.h: a load before an atomic operation, which decides.
      int32_t found = LoadRelaxed(&units.set[slot]);
      if (found == 0) found = AtomicCompareExchange(&units.set[slot], 0, mine);
      if (found == 0) break;
      // Whoever is found, it is a place of the slot's id: that never changes.
      if (all.filled[begin + found - 1] == id) {
        if (mine < found) AtomicMin(&units.set[slot], mine);
        break;
      }
    }
    all.slot_of[place] = static_cast<int32_t>(slot);
  }
};

// Unit: a place, of so many that the lookup may have.
struct MarkFirst : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    const int64_t place = units.first_place(all) + i;
    if (place < units.end_place(all)) all.first[place] = units.set[all.slot_of[place]] == i + 1 ? 1 : 0;
  }
};

// Unit: the lookup.
struct WriteCounts : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t) const {
    const int64_t begin = units.first_place(all), end = units.end_place(all);
    int32_t* counts = all.counts + 1 + 2 * units.lookup;
    counts[0] = static_cast<int32_t>(end - begin);
    counts[1] = all.NumbersBefore(end) - all.NumbersBefore(begin);
  }
};

// Unit: a place.
struct WriteIds : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    const int64_t begin = units.first_place(all), place = begin + i;
    const int64_t first = units.set[all.slot_of[place]] - 1;
    const int32_t number = all.numbers[begin + first] - 1 - all.NumbersBefore(begin);
    units.job.idx[i] = number;
    if (first == i) units.job.ids[number] = static_cast<std::decay_t<decltype(*units.job.ids)>>(all.filled[place]);
    if (units.job.weights != nullptr) units.job.kept_weights[i] = all.weights[place];
  }
};

// Unit: the lookup. See ReadLastRows.
struct ReadLastRow {
  int64_t* last_rows;
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t) const {
    const auto& job = units.job;
    last_rows[units.lookup] = job.indices == nullptr || job.n == 0 ? -1 : job.indices[(job.n - 1) * job.rank];
  }
};

template <class Queue, class Source, class Id>
void ReadLastRowsOnQueue(Queue& queue, const std::vector<PrepareJob<Source, Id>>& jobs, int64_t* last_rows,
                         std::vector<int64_t>* rows) {
  std::vector<PrepareUnits<Source, Id>> units;
  for (size_t i = 0; i < jobs.size(); ++i) units.push_back({jobs[i], static_cast<int64_t>(i), 0, 0, nullptr, 0, 1});
  ForEachUnit(queue, units, ReadLastRow{last_rows});
  rows->resize(jobs.size());
  queue.ToHost(last_rows, static_cast<int64_t>(rows->size()), rows->data());
}

// Both halves of the preparation, over the same scratch memory.
template <class Queue, class Source, class Id>
class Preparation {
 public:
  using Job = PrepareJob<Source, Id>;
  using Units = PrepareUnits<Source, Id>;

  // With a Scratch of null it only measures.
  Preparation(const std::vector<Job>& jobs, const LookupRules& rules, Scratch* scratch) : rules_(rules) {
    const int64_t n = static_cast<int64_t>(jobs.size());
    std::vector<int64_t> set_sizes;
    bool weighted = false;
    for (const Job& job : jobs) {
      all_.values += job.n;
      all_.rows += job.rows;
      int64_t size = 16;
      while (size < 2 * MostPlaces(job)) size *= 2;
      set_sizes.push_back(size);
      all_.set_words += size;
      weighted |= job.weights != nullptr;
    }
    all_.places = all_.values + (rules.fill_rows ? all_.rows : 0);
    all_.keys = scratch->Take<uint64_t>(all_.values);
    all_.sorted_keys = scratch->Take<uint64_t>(all_.values);
    all_.order = scratch->Take<int32_t>(all_.values);
    all_.sorted_order = scratch->Take<int32_t>(all_.values);
    all_.slots = scratch->Take<int32_t>(all_.rows);
    all_.ends = scratch->Take<int32_t>(all_.rows);
    all_.filled = scratch->Take<int64_t>(all_.places);
    all_.weights = scratch->Take<float>(weighted ? all_.places : 0);
    all_.slot_of = scratch->Take<int32_t>(all_.places);
    all_.first = scratch->Take<int32_t>(all_.places);
    all_.numbers = scratch->Take<int32_t>(all_.places);
    all_.sets = scratch->Take<int32_t>(all_.set_words);
    all_.counts = scratch->Take<int32_t>(1 + 2 * n);
    const int64_t sort = Queue::template SortBytes<uint64_t>(all_.values),
                  sum = Queue::SumBytes(all_.places + all_.rows);
    all_.primitive_scratch = scratch->Take<char>(sort > sum ? sort : sum);
    int64_t value = 0, row = 0, set = 0;
    for (int64_t i = 0; i < n; ++i) {
      int32_t* const mine = all_.sets == nullptr ? nullptr : all_.sets + set;
      units_.push_back({jobs[i], i, value, row, mine, set_sizes[i] - 1, 0});
      value += jobs[i].n;
      row += jobs[i].rows;
      set += set_sizes[i];
    }
  }

  void Count(Queue& queue, std::vector<PrepareCounts>* counts, PrepareError* error) {
    int bits = 1;
    while ((all_.rows >> bits) != 0) ++bits;
    queue.Zero(all_.counts, sizeof(int32_t));
    Run<WriteRowKeys>(queue, [](const Units& u) { return u.job.n; });
    queue.Sort(all_.keys, all_.sorted_keys, all_.order, all_.sorted_order, all_.values, bits, all_.primitive_scratch);
    Run<CountSlots>(queue, Rows);
    queue.InclusiveSum(all_.slots, all_.ends, all_.rows, all_.primitive_scratch);
    Run<WriteRowSplits>(queue, [](const Units& u) { return u.job.rows + 1; });
    Run<PutValues>(queue, [](const Units& u) { return u.job.n; });
    if (rules_.fill_rows) Run<PutDefaults>(queue, Rows);
    queue.Zero(all_.sets, all_.set_words * static_cast<int64_t>(sizeof(int32_t)));
    queue.Zero(all_.first, all_.places * static_cast<int64_t>(sizeof(int32_t)));
    const auto most = [this](const Units& u) { return MostPlaces(u.job); };
    Run<FindFirst>(queue, most);
    Run<MarkFirst>(queue, most);
    queue.InclusiveSum(all_.first, all_.numbers, all_.places, all_.primitive_scratch);
    Run<WriteCounts>(queue, [](const Units&) { return int64_t{1}; });
    std::vector<int32_t> host(1 + 2 * units_.size());
    queue.ToHost(all_.counts, static_cast<int64_t>(host.size()), host.data());
    counts->clear();
    for (size_t i = 0; i < units_.size(); ++i) counts->push_back({host[1 + 2 * i], host[2 + 2 * i]});
    *error = {};
    if (host[0] > 0) *error = {(host[0] - 1) / 2, (host[0] - 1) % 2 == 1};
  }

  void Finish(Queue& queue, const std::vector<PrepareCounts>& counts) {
    Run<WriteIds>(queue, [&](const Units& u) { return int64_t{counts[u.lookup].places}; });
  }

 private:
  static int64_t Rows(const Units& units) { return units.job.rows; }
  int64_t MostPlaces(const Job& job) const { return job.n + (rules_.fill_rows ? job.rows : 0); }

  template <class Body, class Count>
  void Run(Queue& queue, const Count& count) {
    for (Units& units : units_) units.units = count(units);
    ForEachUnit(queue, units_, Body{{all_, rules_}});
  }

  LookupRules rules_;
  PrepareArrays all_;
  std::vector<Units> units_;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_PREPARE_BODY_H_
