// The scanner, written once. Each scan_<level>.cc includes it inside its own namespace, under its own target, behind
// blocks of these names:
//
//   bool EqualBytes(a, b, n)         n >= 8 bytes of each, and none beyond.
//   uint64_t GatherSevens(x)         The lower seven bits of 8 bytes, joined.
//   size_t kReach                    How far behind p DecodeBlock may read, whatever `end` is.
//   DecodeBlock(p, end, &out, out_end)
//       Decodes at least one varint of [p, end), no further than end; moves out. Returns where to go on, or null for a
//       varint that is too long or cut off, or one more than there is room for.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCANNER_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCANNER_H_

// Varints that fill [p, p + size): see ScanFunctions.
bool DecodeVarints(const uint8_t* p, size_t size, const uint8_t* readable, int64_t* out, size_t capacity,
                   size_t* count) {
  const uint8_t* const end = p + size;
  int64_t* const first = out;
  int64_t* const out_end = out + capacity;
  while (p < end) {
    if (static_cast<size_t>(readable - p) < kReach) break;
    p = DecodeBlock(p, end, &out, out_end);
    if (p == nullptr) return false;
  }
  if (p < end) {  // Near the end of memory that may be read: in a copy. Never so if kReach is 0.
    uint8_t copy[2 * kReach + 1] = {};
    const size_t left = static_cast<size_t>(end - p);
    std::memcpy(copy, p, left);
    for (p = copy; p < copy + left;) {
      p = DecodeBlock(p, copy + left, &out, out_end);
      if (p == nullptr) return false;
    }
  }
  *count = static_cast<size_t>(out - first);
  return true;
}

// One varint that fills [p, p + size) and is more than 10 bytes behind the record's first, so that words may be loaded
// that end with it and begin before it.
inline bool DecodeSingle(const uint8_t* p, size_t size, int64_t* out) {
  if (size <= 8) {
    const int unused = 64 - 8 * static_cast<int>(size);
    const uint64_t x = Load64(p + size - 8) >> unused;
    // All bytes but the last have one to follow.
    if ((x & 0x8080808080808080) != uint64_t{0x0080808080808080} >> unused) return false;
    *out = static_cast<int64_t>(GatherSevens(x));
    return true;
  }
  if (size > kMaxVarintBytes) return false;
  const uint64_t x = Load64(p);
  const int unused = 8 * (kMaxVarintBytes - static_cast<int>(size));
  uint16_t last;
  std::memcpy(&last, p + size - 2, 2);
  last = static_cast<uint16_t>(last >> unused);  // Bytes 9 and, of ten, 10.
  if ((x & 0x8080808080808080) != 0x8080808080808080 || (last & 0x8080) != 0x0080 >> unused) return false;
  *out = static_cast<int64_t>(GatherSevens(x) | static_cast<uint64_t>(last & 0x7f) << 56 |
                              static_cast<uint64_t>(last >> 8 & 1) << 63);
  return true;
}

// A length of up to 4 bytes; longer ones are not plain.
inline bool ReadLength(const uint8_t** p, const uint8_t* end, size_t* length) {
  size_t value = 0;
  for (int shift = 0; shift < 28 && *p < end; shift += 7) {
    const uint8_t byte = *(*p)++;
    value |= static_cast<size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *length = value;
      return true;
    }
  }
  return false;
}

// A tag and a length that reaches exactly to `end`.
inline bool ReadHeaderOfRest(uint8_t tag, const uint8_t** p, const uint8_t* end) {
  size_t length;
  if (*p == end || **p != tag) return false;
  ++*p;
  return ReadLength(p, end, &length) && length == static_cast<size_t>(end - *p);
}

// Whether at p stands an entry shorter than 128 bytes of this feature, with one packed list or one string of at least a
// byte. At p there are 12 bytes or more.
inline bool IsShortEntry(const ExpectedFeature& expected, const uint8_t* p, const uint8_t* end) {
  const size_t entry = p[1];
  const size_t prefix = expected.prefix_size;
  if (entry >= 128 || entry + 2 <= prefix || entry + 2 > static_cast<size_t>(end - p)) return false;
  uint64_t difference = (Load64(p) ^ (expected.head + (entry << 8))) << expected.head_shift;
  difference |= Load64(p + prefix - 8) ^ (expected.tail + entry * kTailLengths);
  if (prefix > 16) {
    difference |= Load64(p + MiddleAt(prefix)) ^ expected.middle;
    if (prefix > 24) return difference == 0 && EqualBytes(p + 8, expected.prefix + 8, prefix - 16);
  }
  return difference == 0;
}

// The parts of an entry up to its feature.
struct EntryKey {
  const uint8_t* key;
  size_t size;
  const uint8_t* end;  // Of the entry.
};

inline bool ReadEntryKey(const uint8_t* p, const uint8_t* end, EntryKey* entry) {
  size_t length;
  if (*p != kLengthTag1) return false;
  ++p;
  if (!ReadLength(&p, end, &length) || length > static_cast<size_t>(end - p)) return false;
  entry->end = p + length;
  if (length == 0 || *p != kLengthTag1) return false;
  ++p;
  if (!ReadLength(&p, entry->end, &entry->size) || entry->size > static_cast<size_t>(entry->end - p)) return false;
  entry->key = p;
  return true;
}

// The only feature that a short entry at p can be of, by its key; -1: it is of none; -2: it is not short. At p there
// are 12 bytes or more.
inline int32_t ShortCandidate(const SliceState& state, const uint8_t* p, const uint8_t* end) {
  // The hash must not read what a wrong length says: the key ends within the entry, and the entry within the record.
  if (p[1] >= 128 || p[3] + size_t{4} > p[1] || p[1] > end - p) return -2;
  return state.spec->index().Candidate(p + 4, p[3]);
}

// Whether the entry at p, which has been found to be of no feature, is whole all the same: 0A <entry> 0A <klen> key… 12
// <feature>, and both lengths fit.
inline bool IsShortUnknown(const uint8_t* p, const uint8_t* end) {
  const size_t entry = p[1], key = p[3];
  return entry + 2 <= static_cast<size_t>(end - p) && p[0] == kLengthTag1 && p[2] == kLengthTag1 &&
         p[key + 4] == kLengthTag2 && p[key + 5] == entry - key - 4;
}

inline bool IsKey(const ExpectedFeature& expected, const EntryKey& entry) {
  if (expected.prefix[3] != entry.size || entry.size >= 128) return false;
  const uint8_t* key = expected.prefix + 4;
  if (entry.size >= 8) return EqualBytes(entry.key, key, entry.size);
  for (size_t i = 0; i < entry.size; ++i) {
    if (entry.key[i] != key[i]) return false;
  }
  return true;
}

// Room for values at the end of an array, or in a fixed row.
inline int64_t* RoomForVarints(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size,
                               size_t* capacity) {
  if (expected.lengths == nullptr) {
    *capacity = expected.elements;
    return static_cast<int64_t*>(expected.out) + row * expected.elements;
  }
  *capacity = VarintRoom(p, size);
  return static_cast<ValueArray<int64_t>*>(expected.out)->Reserve(*capacity);
}

// Takes `count` values that were written where they belong.
template <class T>
inline bool Commit(const ExpectedFeature& expected, size_t row, size_t count) {
  if (expected.lengths == nullptr) return count == expected.elements;
  if (expected.elements != 1 && count % expected.elements != 0) return false;
  auto* values = static_cast<ValueArray<T>*>(expected.out);
  values->set_size(values->size() + count);
  expected.lengths[row] = static_cast<uint32_t>(count);
  return true;
}

inline bool StoreVarints(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size,
                         const uint8_t* readable) {
  size_t capacity, count;
  int64_t* out = RoomForVarints(expected, row, p, size, &capacity);
  return DecodeVarints(p, size, readable, out, capacity, &count) && Commit<int64_t>(expected, row, count);
}

inline bool StoreFloats(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size) {
  const size_t count = size / sizeof(float);
  if (size % sizeof(float) != 0) return false;
  float* out;
  if (expected.lengths == nullptr) {
    if (count != expected.elements) return false;
    out = static_cast<float*>(expected.out) + row * count;
  } else {
    out = static_cast<ValueArray<float>*>(expected.out)->Reserve(count);
  }
  if (count == 1) {
    std::memcpy(out, p, sizeof(float));
  } else if (count > 0) {
    std::memcpy(out, p, size);
  }
  return Commit<float>(expected, row, count);
}

inline bool StoreString(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size) {
  const BytesView view = {reinterpret_cast<const char*>(p), size};
  if (expected.lengths == nullptr) {
    if (expected.elements != 1) return false;
    static_cast<BytesView*>(expected.out)[row] = view;
  } else {
    *static_cast<ValueArray<BytesView>*>(expected.out)->Reserve(1) = view;
  }
  return Commit<BytesView>(expected, row, 1);
}

// What follows the prefix of a short entry, in all cases but the simplest. `readable` is the record's end.
__attribute__((noinline)) bool StoreLonger(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size,
                                           const uint8_t* readable) {
  switch (expected.target) {
    case Target::kInt64Fixed:
    case Target::kInt64Var:
      return StoreVarints(expected, row, p, size, readable);
    case Target::kFloatFixed:
    case Target::kFloatVar:
      return StoreFloats(expected, row, p, size);
    default:
      return false;
  }
}

// The same in any case.
inline bool StorePayload(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size,
                         const uint8_t* readable) {
  switch (expected.target) {
    case Target::kInt64One:
      return DecodeSingle(p, size, static_cast<int64_t*>(expected.out) + row);
    case Target::kInt64Var:
      if (size <= kMaxVarintBytes) {
        int64_t* out = static_cast<ValueArray<int64_t>*>(expected.out)->Reserve(1);
        if (DecodeSingle(p, size, out)) return Commit<int64_t>(expected, row, 1);
      }
      break;
    case Target::kFloatFixed:
      if (size == sizeof(float) && expected.elements == 1) {
        std::memcpy(static_cast<float*>(expected.out) + row, p, sizeof(float));
        return true;
      }
      break;
    case Target::kBytesFixed:
    case Target::kBytesVar:
      return StoreString(expected, row, p, size);
    default:
      break;
  }
  return StoreLonger(expected, row, p, size, readable);
}

// Lists that are not packed: 08 varint 08 varint …
bool StoreTaggedVarints(const ExpectedFeature& expected, size_t row, const uint8_t* p, const uint8_t* end) {
  size_t capacity;
  int64_t* out = RoomForVarints(expected, row, p, static_cast<size_t>(end - p), &capacity);
  size_t count = 0;
  WireReader reader(p, static_cast<size_t>(end - p));
  for (; !reader.AtEnd(); ++count) {
    uint64_t value;
    if (count == capacity || !reader.Expect(kVarintTag1) || !reader.ReadVarint(&value)) return false;
    out[count] = static_cast<int64_t>(value);
  }
  return Commit<int64_t>(expected, row, count);
}

bool StoreTaggedFloats(const ExpectedFeature& expected, size_t row, const uint8_t* p, const uint8_t* end) {
  const size_t size = static_cast<size_t>(end - p), count = size / 5;
  if (size % 5 != 0) return false;
  float* out;
  if (expected.lengths == nullptr) {
    if (count != expected.elements) return false;
    out = static_cast<float*>(expected.out) + row * count;
  } else {
    out = static_cast<ValueArray<float>*>(expected.out)->Reserve(count);
  }
  for (size_t i = 0; i < count; ++i, p += 5) {
    if (*p != kFixed32Tag1) return false;
    std::memcpy(out + i, p + 1, sizeof(float));
  }
  return Commit<float>(expected, row, count);
}

inline bool ReadString(const uint8_t** p, const uint8_t* end, BytesView* value) {
  size_t length;
  if (**p != kLengthTag1) return false;
  ++*p;
  if (!ReadLength(p, end, &length) || length > static_cast<size_t>(end - *p)) return false;
  *value = {reinterpret_cast<const char*>(*p), length};
  *p += length;
  return true;
}

// Strings of a list, in a fixed row.
bool StoreStringRow(const ExpectedFeature& expected, size_t row, const uint8_t* p, const uint8_t* end) {
  BytesView* out = static_cast<BytesView*>(expected.out) + row * expected.elements;
  size_t count = 0;
  for (; p < end; ++count) {
    if (count == expected.elements || !ReadString(&p, end, out + count)) return false;
  }
  return count == expected.elements;
}

bool StoreStrings(const ExpectedFeature& expected, size_t row, const uint8_t* p, const uint8_t* end) {
  if (expected.lengths == nullptr) return StoreStringRow(expected, row, p, end);
  auto* values = static_cast<ValueArray<BytesView>*>(expected.out);
  const size_t before = values->size();
  bool whole = true;
  while (whole && p < end) {
    BytesView value;
    whole = ReadString(&p, end, &value);
    if (whole) values->push_back(value);
  }
  const size_t count = values->size() - before;
  values->set_size(before);
  return whole && Commit<BytesView>(expected, row, count);
}

// Any feature whose lengths fit each other. `p` is behind the key, `end` the entry's.
inline bool StoreFeature(const ExpectedFeature& expected, size_t row, const uint8_t* p, const uint8_t* end,
                         const uint8_t* readable) {
  if (p == end) return Commit<int64_t>(expected, row, 0);
  switch (expected.target) {
    case Target::kInt64One:
    case Target::kInt64Fixed:
    case Target::kInt64Var:
      if (!ReadHeaderOfRest(kLengthTag3, &p, end)) return false;
      if (p == end) return Commit<int64_t>(expected, row, 0);
      if (*p == kVarintTag1) return StoreTaggedVarints(expected, row, p, end);
      return ReadHeaderOfRest(kLengthTag1, &p, end) &&
             StoreVarints(expected, row, p, static_cast<size_t>(end - p), readable);
    case Target::kFloatFixed:
    case Target::kFloatVar:
      if (!ReadHeaderOfRest(kLengthTag2, &p, end)) return false;
      if (p == end) return Commit<float>(expected, row, 0);
      if (*p == kFixed32Tag1) return StoreTaggedFloats(expected, row, p, end);
      return ReadHeaderOfRest(kLengthTag1, &p, end) && StoreFloats(expected, row, p, static_cast<size_t>(end - p));
    case Target::kBytesFixed:
    case Target::kBytesVar:
      return ReadHeaderOfRest(kLengthTag1, &p, end) && StoreStrings(expected, row, p, end);
    default:
      return false;
  }
}

// A feature with no kind set is there, and empty, for sparse and ragged ones of a batch; otherwise it is passed over.
inline bool EmptyCounts(const SliceState& state, const ExpectedFeature& expected) {
  const FeatureKind kind = state.spec->features()[static_cast<size_t>(&expected - state.expected.get())].kind;
  return state.spec->semantics() == Semantics::kBatch && (kind == FeatureKind::kSparse || kind == FeatureKind::kRagged);
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
  if (feature == entry.end && !EmptyCounts(state, *expected)) return {entry.end, previous};
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

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCANNER_H_
