#include "cc/core/hash_table/striped_index.h"

#include <algorithm>

namespace tf_booster {
namespace {

// A new stripe is filled to at most 7/8 of the greatest load, so that one full of tombstones does not come back at
// once.
constexpr int64_t kNewLoadEighths = 7;
constexpr int64_t kMinCapacity = 16;
// From one stripe's greatest load to the next one's. 16 times 4 spread the growth of an index over 8 % of its keys, for
// a byte a row. At 6.7 million rows the longest batch of 131,072 keys, 10 % of them new, takes 40 to 66 ms (one stripe
// grows) instead of 250 (all of them), where others take 9; and the index is never there twice.
constexpr int64_t kLoadStepPermille = 4;

}  // namespace

// A stripe without memory is one empty bucket that is only read: capacity 0 lets nothing in.
IndexRef StripedIndex::EmptyRef() const {
  alignas(64) static IndexEntry empty[4] = {};
  return {empty, 0};
}

StripedIndex::StripedIndex(Allocator* allocator, int bucket_entries, int max_load_percent)
    : allocator_(allocator), bucket_entries_(bucket_entries) {
  int64_t permille = 10 * max_load_percent;
  refs_.fill(EmptyRef());
  for (Stripe& stripe : stripes_) {
    stripe.next = EmptyRef();
    stripe.max_load_permille = permille;
    permille -= kLoadStepPermille;
  }
}

StripedIndex::~StripedIndex() { Clear(); }

void StripedIndex::Release(IndexRef* ref, int64_t capacity) {
  if (capacity > 0) allocator_->Free(ref->entries, capacity * sizeof(IndexEntry));
  *ref = EmptyRef();
}

void StripedIndex::Clear() {
  for (int s = 0; s < kStripes; ++s) {
    Stripe& stripe = stripes_[s];
    Release(&refs_[s], stripe.capacity);
    Release(&stripe.next, stripe.next_capacity);
    stripe.capacity = stripe.live = stripe.used = stripe.next_capacity = 0;
  }
}

int64_t StripedIndex::CapacityFor(const Stripe& stripe, int64_t more) const {
  if (Fits(stripe, more)) return stripe.capacity;
  int64_t capacity = kMinCapacity;
  while ((stripe.live + more) * 8000 > capacity * stripe.max_load_permille * kNewLoadEighths) capacity *= 2;
  return capacity;
}

int64_t StripedIndex::GrowthBytes(int s, int64_t more) const {
  const Stripe& stripe = stripes_[s];
  if (Fits(stripe, more)) return 0;
  return CapacityFor(stripe, more) * static_cast<int64_t>(sizeof(IndexEntry));
}

template <int kEntries>
void StripedIndex::Rehash(int stripe, const IndexRef& to) {
  constexpr int64_t kAhead = 16;  // The new place of an entry is a cache miss; so many are under way at once.
  const IndexEntry* entries = refs_[stripe].entries;
  const int64_t capacity = stripes_[stripe].capacity;
  for (int64_t i = 0; i < capacity; ++i) {
    if (i + kAhead < capacity) {
      const IndexEntry& later = entries[i + kAhead];
      __builtin_prefetch(FirstBucket<kEntries>(to, HashKey(later.key, later.field)), 1);
    }
    if (!IsLive(entries[i].state)) continue;
    *FindVacancy<kEntries>(to, HashKey(entries[i].key, entries[i].field)) = entries[i];
  }
}

bool StripedIndex::PrepareGrowth(int s, int64_t more) {
  Stripe& stripe = stripes_[s];
  const int64_t bytes = GrowthBytes(s, more);
  if (bytes == 0) return true;
  void* memory = allocator_->Allocate(bytes);
  if (memory == nullptr) return false;
  stripe.next_capacity = bytes / static_cast<int64_t>(sizeof(IndexEntry));
  stripe.next = {static_cast<IndexEntry*>(memory), static_cast<uint64_t>(stripe.next_capacity / bucket_entries_ - 1)};
  if (bucket_entries_ == 4) {
    Rehash<4>(s, stripe.next);
  } else {
    Rehash<1>(s, stripe.next);
  }
  return true;
}

void StripedIndex::CommitGrowth(int s) {
  Stripe& stripe = stripes_[s];
  if (stripe.next_capacity == 0) return;
  Release(&refs_[s], stripe.capacity);
  refs_[s] = stripe.next;
  stripe.capacity = stripe.next_capacity;
  stripe.used = stripe.live;
  stripe.next = EmptyRef();
  stripe.next_capacity = 0;
}

void StripedIndex::DropGrowth(int s) {
  Release(&stripes_[s].next, stripes_[s].next_capacity);
  stripes_[s].next_capacity = 0;
}

void StripedIndex::Erase(uint64_t hash, IndexEntry* entry) {
  const IndexRef& ref = refs_[StripeOf(hash)];
  Stripe& stripe = stripes_[StripeOf(hash)];
  const bool emptied = bucket_entries_ == 4 ? VacateEntry<4>(ref, entry) : VacateEntry<1>(ref, entry);
  --stripe.live;
  stripe.used -= emptied;
}

int64_t StripedIndex::capacity() const {
  int64_t capacity = 0;
  for (const Stripe& stripe : stripes_) capacity += stripe.capacity;
  return capacity;
}

}  // namespace tf_booster
