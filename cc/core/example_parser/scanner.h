// The scanner, written once. Each scan_<level>.cc includes it inside its own namespace, under its own target, behind
// blocks of these names:
//
//   bool EqualBytes(a, b, n)         n >= 8 bytes of each, and none beyond.
//   uint64_t GatherSevens(x)         The lower seven bits of 8 bytes, joined.
//   size_t kReach                    How far behind p DecodeBlock may read, whatever `end` is.
//   DecodeBlock(p, end, &out, out_end)
//       Decodes at least one varint of [p, end), no further than end, and all whole ones if these are 64 bytes or less;
//       moves out. Returns where to go on, or null for a varint that is too long or cut off, or one more than there is
//       room for.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCANNER_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCANNER_H_

#include "cc/core/example_parser/scan_varints.h"

#include "cc/core/example_parser/scan_entry.h"

#include "cc/core/example_parser/scan_values.h"

// A feature with no kind set is there, and empty, for sparse and ragged ones of a batch; otherwise it is passed over.
inline bool EmptyCounts(const SliceState& state, const ExpectedFeature& expected) {
  const FeatureKind kind = state.spec->features()[static_cast<size_t>(&expected - state.expected.get())].kind;
  return state.spec->semantics() != Semantics::kSingle &&
         (kind == FeatureKind::kSparse || kind == FeatureKind::kRagged);
}

// Where an entry led: to the next one, or to null if it is not plain; and the feature to predict from.
struct AfterEntry {
  const uint8_t* next;
  ExpectedFeature* previous;
};

// An entry of any plain form. Apart, so that the loop over short ones keeps its variables in registers.
__attribute__((noinline)) AfterEntry ScanAnyEntry(SliceState& state, ExpectedFeature* previous, const uint8_t* p,
                                                  const uint8_t* end, size_t row) {
  ExpectedFeature* const all = state.expected.get();
  ExpectedFeature* expected = all + previous->next;
  EntryKey entry;
  if (!ReadEntryKey(p, end, &entry)) return {};
  const uint8_t* feature = entry.key + entry.size;
  if (!ReadHeaderOfRest(kLengthTag2, &feature, entry.end)) return {};
  if (!IsKey(*expected, entry)) {
    const int32_t found = state.spec->index().Find(entry.key, entry.size);
    if (found < 0) return {entry.end, previous};  // Nobody asked.
    previous->next = static_cast<uint32_t>(found);
    expected = all + found;
  }
  if (feature == entry.end && !EmptyCounts(state, *expected)) {
    return state.spec->semantics() == Semantics::kContext ? AfterEntry{} : AfterEntry{entry.end, previous};
  }
  if (expected->seen == state.epoch) return {};
  expected->seen = state.epoch;
  if (!StoreFeature(*expected, row, feature, entry.end, end)) return {};
  state.num_counted += expected->counted;
  return {entry.end, expected};
}

bool ScanRecord(SliceState& state, const uint8_t* p, const uint8_t* end, size_t row) {
  if (!ReadHeaderOfRest(kLengthTag1, &p, end)) return false;
  const uint32_t epoch = state.epoch;
  ExpectedFeature* const all = state.expected.get();
  ExpectedFeature* previous = all + state.size;
  int trust = state.trust;
  size_t num_counted = 0;
  uint64_t num_entries = 0;
  state.num_counted = 0;
  while (p < end) {
    ++num_entries;
    bool is_short = false;
    ExpectedFeature* expected = all + previous->next;
    if (end - p >= 12) {
      is_short = trust > 0 && IsShortEntry(*expected, p, end);
      if (!is_short) {
        const int32_t candidate = ShortCandidate(state, p, end);
        if (candidate >= 0 && IsShortEntry(all[candidate], p, end)) {
          // Where keys come in random order, looking for the expected one first is a waste: so many more surprises than
          // hits, and the hash goes first; 16 more hits than surprises, and it does not.
          if (expected == all + candidate) {
            if (++trust > 0) trust = kMostTrust;
          } else if (trust > kLeastTrust) {
            --trust;
          }
          previous->next = static_cast<uint32_t>(candidate);
          expected = all + candidate;
          is_short = true;
        } else if (candidate == -1 && IsShortUnknown(p, end)) {
          p += size_t{2} + p[1];
          continue;
        }
      }
    }
    if (!is_short) {
      const AfterEntry after = ScanAnyEntry(state, previous, p, end, row);
      if (after.next == nullptr) return false;
      p = after.next;
      previous = after.previous;
      continue;
    }
    if (expected->seen == epoch) return false;
    expected->seen = epoch;
    const size_t whole = size_t{2} + p[1], prefix = expected->prefix_size;
    if (!StorePayload(*expected, row, p + prefix, whole - prefix, end)) return false;
    num_counted += expected->counted;
    previous = expected;
    p += whole;
  }
  state.trust = trust;
  if (num_counted + state.num_counted != state.counted.size()) {
    for (uint32_t f : state.counted) {
      if (all[f].seen == epoch) continue;
      if (!WriteDefault(*state.spec, all[f], f, row)) return false;
      ++state.missing[f];
    }
  }
  state.num_entries += num_entries;
  return true;
}

size_t ScanRecords(SliceState& state, const Record* records, size_t begin, size_t n) {
  for (size_t i = begin; i < n; ++i) {
    state.NextRecord();
    const uint8_t* p = reinterpret_cast<const uint8_t*>(records[i].data);
    if (records[i].size > kMaxRecordBytes || !ScanRecord(state, p, p + records[i].size, i)) {
      state.TakeBack(i);
      return i;
    }
  }
  return n;
}

#include "cc/core/example_parser/scan_feature_lists.h"

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCANNER_H_
