// Which feature an entry of the map is of, and whether its lengths fit. Part of scanner.h.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_ENTRY_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_ENTRY_H_

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

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_ENTRY_H_
