// The index: (key, field) -> state, in kStripes sub-indices that grow on their own. Threads of a writer work on
// different stripes and need no locks or atomics between them. Who may call what when is the table's business.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_STRIPED_INDEX_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_STRIPED_INDEX_H_

#include <array>
#include <cstdint>

#include "cc/core/base/allocator.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/hash_table/probing.h"
#include "cc/core/hash_table/table_layout.h"

namespace tf_booster {

class StripedIndex {
 public:
  // `max_load_percent`, 50 to 95: a stripe is rehashed before live entries and tombstones fill more of it. Stripes are
  // equally large but for chance, so each has a limit of its own, up to 6 percent below: they grow one after another
  // while the table grows by a twelfth, and no batch waits for all of them.
  StripedIndex(Allocator* allocator, int bucket_entries, int max_load_percent);
  ~StripedIndex();
  StripedIndex(const StripedIndex&) = delete;
  StripedIndex& operator=(const StripedIndex&) = delete;

  // The bucket where a probe begins.
  IndexEntry* FirstBucketOf(uint64_t hash) const {
    const IndexRef& ref = refs_[StripeOf(hash)];
    return ref.entries + (hash & ref.bucket_mask) * bucket_entries_;
  }

  // For an Insert soon, into the first-level cache.
  void PrefetchToInsert(uint64_t hash) const { __builtin_prefetch(FirstBucketOf(hash), /*write=*/1, /*locality=*/3); }

  // The entry of a key, or null.
  IndexEntry* Find(uint64_t hash, int64_t key, uint32_t field) const {
    const IndexRef& ref = refs_[StripeOf(hash)];
    return bucket_entries_ == 4 ? FindEntry<4>(ref, hash, key, field) : FindEntry<1>(ref, hash, key, field);
  }

  // The state of a key; kEmpty where it has no entry.
  uint32_t StateOf(uint64_t hash, int64_t key, uint32_t field) const {
    const IndexEntry* entry = Find(hash, key, field);
    return entry == nullptr ? kEmpty : entry->state;
  }

  // StateOf in two halves, for who has other keys to look at meanwhile. The first needs the bucket that FirstBucketOf
  // says; where it is false the key is not settled, and StateOf needs what PrefetchBeyond fetches as well.
  bool StateInBucket(const IndexEntry* bucket, int64_t key, uint32_t field, uint32_t* state) const {
    return bucket_entries_ == 4 ? tf_booster::StateInBucket<4>(bucket, key, field, state)
                                : tf_booster::StateInBucket<1>(bucket, key, field, state);
  }
  void PrefetchBeyond(uint64_t hash) const {
    const IndexRef& ref = refs_[StripeOf(hash)];
    for (uint64_t next = 1; next <= 2; ++next) {
      __builtin_prefetch(ref.entries + ((hash + next) & ref.bucket_mask) * bucket_entries_, /*write=*/0,
                         /*locality=*/2);
    }
  }

  // Growth in three steps. GrowthBytes: memory that room for `more` keys in a stripe would take, 0 if they fit already.
  // PrepareGrowth: builds the larger stripe aside, which readers do not see; false when there is no memory.
  // CommitGrowth: takes it, or nothing where nothing was prepared. DropGrowth: forgets it.
  int64_t GrowthBytes(int stripe, int64_t more) const;
  bool PrepareGrowth(int stripe, int64_t more);
  void CommitGrowth(int stripe);
  void DropGrowth(int stripe);

  // Keys that a stripe lets in without growth.
  int64_t RoomOf(int stripe) const {
    const Stripe& s = stripes_[stripe];
    return s.capacity * s.max_load_permille / 1000 - s.used;
  }

  // Room was made before and the key is absent.
  void Insert(uint64_t hash, int64_t key, uint32_t field, uint32_t state) {
    const IndexRef& ref = refs_[StripeOf(hash)];
    Fill(hash, bucket_entries_ == 4 ? FindVacancy<4>(ref, hash) : FindVacancy<1>(ref, hash), {key, field, state});
  }

  // Insert in two halves, for keys that may have come in a moment ago: the key's entry, or the vacant one to Fill. The
  // key was absent, and nothing was erased since. Unfill is Fill's opposite, in the opposite order: `state` is what the
  // entry's was.
  IndexEntry* FindOrVacancy(uint64_t hash, int64_t key, uint32_t field) const {
    const IndexRef& ref = refs_[StripeOf(hash)];
    return bucket_entries_ == 4 ? tf_booster::FindOrVacancy<4>(ref, hash, key, field)
                                : tf_booster::FindOrVacancy<1>(ref, hash, key, field);
  }
  void Fill(uint64_t hash, IndexEntry* vacant, const IndexEntry& with) {
    Stripe& stripe = stripes_[StripeOf(hash)];
    stripe.used += vacant->state == kEmpty;
    ++stripe.live;
    *vacant = with;
  }
  void Unfill(uint64_t hash, IndexEntry* entry, uint32_t state) {
    Stripe& stripe = stripes_[StripeOf(hash)];
    stripe.used -= state == kEmpty;
    --stripe.live;
    *entry = {entry->key, kNoField, state};
  }
  void Erase(uint64_t hash, IndexEntry* entry);
  void Clear();

  // Calls visit(entry) on the live entries of all stripes, in an order that depends on the history of batches only.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (int s = 0; s < kStripes; ++s) ForEachOfStripe(s, visit);
  }
  template <class Visit>
  void ForEachOfStripe(int s, Visit visit) const {
    const IndexEntry* const entries = refs_[s].entries;
    for (int64_t i = 0; i < stripes_[s].capacity; ++i) {
      if (IsLive(entries[i].state)) visit(entries[i]);
    }
  }

  // Calls visit(entry) on the live entries among [begin, end) of a stripe; it may erase the entry that it is given.
  template <class Visit>
  void ForEachOfPart(int stripe, int64_t begin, int64_t end, Visit visit) {
    IndexEntry* const entries = refs_[stripe].entries;
    for (int64_t i = begin; i < end; ++i) {
      if (IsLive(entries[i].state)) visit(&entries[i]);
    }
  }
  int64_t stripe_capacity(int stripe) const { return stripes_[stripe].capacity; }

  int64_t capacity() const;
  int64_t bytes() const { return capacity() * static_cast<int64_t>(sizeof(IndexEntry)); }

 private:
  struct alignas(64) Stripe {  // A line of its own: each is counted in by another thread.
    int64_t capacity = 0;      // Entries.
    int64_t live = 0;
    int64_t used = 0;               // Live ones and tombstones.
    int64_t max_load_permille = 0;  // Of them.
    IndexRef next;                  // Prepared growth; next_capacity is 0 where there is none.
    int64_t next_capacity = 0;
  };

  bool Fits(const Stripe& stripe, int64_t more) const {
    return (stripe.used + more) * 1000 <= stripe.capacity * stripe.max_load_permille;
  }
  int64_t CapacityFor(const Stripe& stripe, int64_t more) const;
  IndexRef EmptyRef() const;
  void Release(IndexRef* ref, int64_t capacity);
  template <int kEntries>
  void Rehash(int stripe, const IndexRef& to);

  Allocator* const allocator_;
  const int bucket_entries_;
  std::array<IndexRef, kStripes> refs_;  // Of the stripes; what every probe reads, in four lines.
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_STRIPED_INDEX_H_
