// The preparation of lookups as bodies for the GPU. Rows and places of all lookups are numbered through, lookup after
// lookup: sorts and sums go over all of them at once.
//
//   keys      the row of each value that stays; the number of rows for those that do not
//   sort      stable, so values of a row keep their order
//   ranks     the rank of a row's first value among those that stay
//   slots     how many places each row has; their sums are row_splits
//   filled    the id of each place
//   sets      a hash set for each lookup: the first place of each id
//   numbers   the sum over first places: the number of each id
//
// Values of dense lookups are in the order of rows. Where all are dense the sum over those that stay gives the ranks,
// in place of the sort and of searches in what it sorted.
#ifndef TF_BOOSTER_CC_CORE_POOLING_PREPARE_BODY_H_
#define TF_BOOSTER_CC_CORE_POOLING_PREPARE_BODY_H_

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "cc/core/gpu/atomics.h"
#include "cc/core/gpu/device_primitives.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/row_groups.h"
#include "cc/core/gpu/scratch.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/pooling/prepare_gpu.h"

namespace tf_booster {
namespace gpu {

// Arrays over all lookups, in scratch memory.
struct PrepareArrays {
  int64_t values = 0, rows = 0, places = 0;   // How many there are; of places at most.
  bool dense = false;                         // All lookups are.
  int32_t *stays = nullptr, *kept = nullptr;  // Of dense ones, [values]: 1 for those that stay; sums of them.
  uint32_t* sorted_keys = nullptr;            // Of others, [values].
  int32_t* sorted_order = nullptr;
  int32_t* ranks = nullptr;                   // [rows]
  int32_t *slots = nullptr, *ends = nullptr;  // [rows]: places of a row; where they end.
  int64_t* filled = nullptr;                  // [places]
  float* weights = nullptr;
  int32_t* slot_of = nullptr;  // [places]: where in the sets the id is.
  int32_t* numbers = nullptr;  // [places]: how many first places there are up to it.
  int32_t* sets = nullptr;     // 1 + the first place of an id; 0 is empty.
  int32_t* counts = nullptr;   // Two for each lookup, and the error.
  void* primitive_scratch = nullptr;
  int64_t set_words = 0;

  // How many values before `value` stay.
  TFB_HOST_DEVICE int32_t KeptBefore(int64_t value) const { return value == 0 ? 0 : kept[value - 1]; }
  // The same of values of rows before `row`.
  TFB_HOST_DEVICE int32_t SortedBefore(int64_t row) const {
    int64_t low = 0, high = values;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sorted_keys[middle] < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return static_cast<int32_t>(low);
  }
  TFB_HOST_DEVICE int64_t BeginOf(int64_t row) const { return row == 0 ? 0 : ends[row - 1]; }
  TFB_HOST_DEVICE int32_t NumbersBefore(int64_t place) const { return place == 0 ? 0 : numbers[place - 1]; }
};

template <class Source, class Id>
struct PrepareUnits {
  PrepareJob<Source, Id> job;
  int64_t lookup, first_value, first_row;
  int64_t first_word, set_mask;  // Of its set.
  int64_t units;

  TFB_HOST_DEVICE int64_t first_place(const PrepareArrays& all) const { return all.BeginOf(first_row); }
  TFB_HOST_DEVICE int64_t end_place(const PrepareArrays& all) const { return all.BeginOf(first_row + job.rows); }
};

// What every body has: the arrays once, instead of with each lookup, so that more lookups fit into a launch.
struct PrepareBody {
  PrepareArrays all;
  LookupRules rules;
};

struct KeepBody : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE bool Kept(const Units& units, int64_t i) const {
    const auto& job = units.job;
    if (job.indices == nullptr && job.values[i] == -1) return false;
    if (rules.prune_ids && job.values[i] < 0) return false;
    return !(rules.prune_weights && job.weights != nullptr && !(job.weights[i] > 0.0f));
  }
};

// Unit: a value, of dense lookups.
struct MarkKept : KeepBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    all.stays[units.first_value + i] = Kept(units, i) ? 1 : 0;
  }
};

// Unit: a value. What is to be sorted.
struct WriteRowKeys : KeepBody {
  uint32_t* keys;
  int32_t* order;

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
    int64_t key = all.rows;
    if (Kept(units, i)) {
      const int64_t row = RowOf(units, i);
      const bool inside = row >= 0 && row < units.job.rows;
      const bool falls =
          !rules.fill_rows && i > 0 && units.job.indices != nullptr && Kept(units, i - 1) && RowOf(units, i - 1) > row;
      if (!inside || falls) {
        AtomicMax(&all.counts[0], static_cast<int32_t>(1 + 2 * units.lookup + (rules.fill_rows ? 0 : 1)));
      }
      if (inside) key = units.first_row + row;
    }
    keys[value] = static_cast<uint32_t>(key);
    order[value] = static_cast<int32_t>(value);
  }
};

// Unit: a row.
struct CountSlots : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t r) const {
    const int64_t row = units.first_row + r, value = units.first_value + r * units.job.width;
    const int32_t rank = all.dense ? all.KeptBefore(value) : all.SortedBefore(row);
    const int32_t end = all.dense ? all.KeptBefore(value + units.job.width) : all.SortedBefore(row + 1);
    const int32_t count = end - rank;
    all.ranks[row] = rank;
    if (rules.fill_rows) units.job.row_is_empty[r] = count == 0;
    all.slots[row] = rules.fill_rows && count == 0 ? 1 : count;
  }
};

// Unit: a row, or the end. Where it begins, and the default of an empty one.
struct FinishRows : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t r) const {
    const int64_t place = all.BeginOf(units.first_row + r);
    units.job.row_splits[r] = static_cast<int32_t>(place - units.first_place(all));
    if (!rules.fill_rows || r == units.job.rows || !units.job.row_is_empty[r]) return;
    all.filled[place] = units.job.default_id;
    if (units.job.weights != nullptr) all.weights[place] = 1.0f;
  }
};

// Unit: a value of the lookup, in the order of rows.
struct PutValues : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    if (units.job.rows == 0) return;
    int64_t row, rank, from;
    if (all.dense) {
      rank = all.KeptBefore(units.first_value + i);
      if (all.kept[units.first_value + i] == rank) return;
      row = units.first_row + i / units.job.width;
      from = i;
    } else {
      rank = all.ranks[units.first_row] + i;
      if (rank >= all.values) return;
      row = all.sorted_keys[rank];
      if (row >= units.first_row + units.job.rows) return;  // So many values did not stay.
      from = all.sorted_order[rank] - units.first_value;
    }
    const int64_t place = all.BeginOf(row) + rank - all.ranks[row];
    all.filled[place] = static_cast<int64_t>(units.job.values[from]);
    if (units.job.weights != nullptr) all.weights[place] = units.job.weights[from];
  }
};

// Unit: a place, of so many that the lookup may have.
struct FindFirst : PrepareBody {
  template <class Units>
  TFB_HOST_DEVICE void operator()(const Units& units, int64_t i) const {
    const int64_t begin = units.first_place(all), place = begin + i;
    if (place >= units.end_place(all)) return;
    const int64_t id = all.filled[place];
    const int32_t mine = static_cast<int32_t>(place + 1);
    int32_t* const set = all.sets + units.first_word;
    int64_t slot = static_cast<int64_t>(Mix64(static_cast<uint64_t>(id))) & units.set_mask;
    for (;; slot = (slot + 1) & units.set_mask) {
      // As EnterValue of unique_body.h: a load before an atomic operation, which decides.
      int32_t found = LoadRelaxed(&set[slot]);
      if (found == 0) found = AtomicCompareExchange(&set[slot], 0, mine);
      if (found == 0) break;
      // Whoever is found, it is a place of the slot's id: that never changes.
      if (all.filled[found - 1] == id) {
        if (mine < found) AtomicMin(&set[slot], mine);
        break;
      }
    }
    all.slot_of[place] = static_cast<int32_t>(units.first_word + slot);
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
    const int64_t first = all.sets[all.slot_of[place]] - 1;
    const int32_t number = all.numbers[first] - 1 - all.NumbersBefore(begin);
    units.job.idx[i] = number;
    if (first == place) units.job.ids[number] = static_cast<std::decay_t<decltype(*units.job.ids)>>(all.filled[place]);
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
  for (size_t i = 0; i < jobs.size(); ++i) units.push_back({jobs[i], static_cast<int64_t>(i), 0, 0, 0, 0, 1});
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
    all_.dense = true;
    for (const Job& job : jobs) {
      all_.dense &= job.indices == nullptr;
      all_.values += job.n;
      all_.rows += job.rows;
      int64_t size = 16;
      while (size < 2 * MostPlaces(job)) size *= 2;
      set_sizes.push_back(size);
      all_.set_words += size;
      weighted |= job.weights != nullptr;
    }
    all_.places = all_.values + (rules.fill_rows ? all_.rows : 0);
    if (all_.dense) {
      all_.stays = scratch->Take<int32_t>(all_.values);
      all_.kept = scratch->Take<int32_t>(all_.values);
    } else {
      sort_.emplace(all_.values, scratch);
      all_.sorted_keys = sort_->sorted_keys;
      all_.sorted_order = sort_->sorted_order;
    }
    all_.ranks = scratch->Take<int32_t>(all_.rows);
    all_.slots = scratch->Take<int32_t>(all_.rows);
    all_.ends = scratch->Take<int32_t>(all_.rows);
    all_.filled = scratch->Take<int64_t>(all_.places);
    all_.weights = scratch->Take<float>(weighted ? all_.places : 0);
    all_.slot_of = scratch->Take<int32_t>(all_.places);
    all_.numbers = scratch->Take<int32_t>(all_.places);
    all_.sets = scratch->Take<int32_t>(all_.set_words);
    all_.counts = scratch->Take<int32_t>(1 + 2 * n);
    all_.primitive_scratch = scratch->Take<char>(Queue::SumBytes(all_.places + all_.rows));
    int64_t value = 0, row = 0, word = 0;
    for (int64_t i = 0; i < n; ++i) {
      units_.push_back({jobs[i], i, value, row, word, set_sizes[i] - 1, 0});
      value += jobs[i].n;
      row += jobs[i].rows;
      word += set_sizes[i];
    }
  }

  void Count(Queue& queue, std::vector<PrepareCounts>* counts, PrepareError* error) {
    const auto values = [](const Units& u) { return u.job.n; };
    queue.Zero(all_.counts, sizeof(int32_t));
    if (all_.dense) {
      Run(queue, values, MarkKept{{{all_, rules_}}});
      queue.InclusiveSum(all_.stays, all_.kept, all_.values, all_.primitive_scratch);
    } else {
      Run(queue, values, WriteRowKeys{{{all_, rules_}}, sort_->keys, sort_->order});
      sort_->Run(queue, all_.values, static_cast<uint64_t>(all_.rows));
    }
    Run<CountSlots>(queue, Rows);
    queue.InclusiveSum(all_.slots, all_.ends, all_.rows, all_.primitive_scratch);
    Run<FinishRows>(queue, [](const Units& u) { return u.job.rows + 1; });
    Run<PutValues>(queue, values);
    queue.Zero(all_.sets, all_.set_words * static_cast<int64_t>(sizeof(int32_t)));
    // Of places that there are not as well: a word that is theirs there is none.
    queue.Zero(all_.slot_of, all_.places * static_cast<int64_t>(sizeof(int32_t)));
    Run<FindFirst>(queue, [this](const Units& u) { return MostPlaces(u.job); });
    queue.InclusiveSum(OwnWords{all_.slot_of, all_.sets}, all_.numbers, all_.places, all_.primitive_scratch);
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

  template <class Count, class Body>
  void Run(Queue& queue, const Count& count, const Body& body) {
    for (Units& units : units_) units.units = count(units);
    ForEachUnit(queue, units_, body);
  }
  template <class Body, class Count>
  void Run(Queue& queue, const Count& count) {
    Run(queue, count, Body{{all_, rules_}});
  }

  LookupRules rules_;
  PrepareArrays all_;
  std::optional<RowSort<Queue, uint32_t>> sort_;  // Where not all are dense.
  std::vector<Units> units_;
};

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_POOLING_PREPARE_BODY_H_
