// Packed varints, built of a level's blocks. Part of scanner.h.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_VARINTS_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_VARINTS_H_

// Each block begins where the one before ends, so that few loads are under way at once, and the processor sees too late
// which lines come next: their lines are asked for so many bytes ahead, whatever lies there (a prefetch of nothing does
// no harm). 8 lists of 200 hashed ids, 15 kB a record, out of the caches, thousand records a second by AVX2 and AVX-512
// on Granite Rapids: 134 and 111 without, 280 and 310 with the input 1 to 4 kB ahead, 290 and 330 with the output too.
// The output's lines one by one, three a block of short varints, were no faster than one a block.
constexpr size_t kInputAhead = 2048;
constexpr size_t kOutputAhead = 1024;

// For a prefetch: an address, which may lie outside of any array; `from` is null where nothing is to be written.
inline const void* Beyond(const void* from, size_t bytes) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + bytes);
}

// Varints that fill [p, p + size): see ScanFunctions.
bool DecodeVarints(const uint8_t* p, size_t size, const uint8_t* readable, int64_t* out, size_t capacity,
                   size_t* count) {
  const uint8_t* const end = p + size;
  int64_t* const first = out;
  int64_t* const out_end = out + capacity;
  while (p < end) {
    if (static_cast<size_t>(readable - p) < kReach) break;
    __builtin_prefetch(Beyond(p, kInputAhead));
    __builtin_prefetch(Beyond(out, kOutputAhead), 1);
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

// The same, where most lists are short: up to 64 bytes are decoded at once, here in place. Of 26 lists of 20 ids, in
// the cache, the call and the loop took 50 of 407 ns (Zen 4, AVX-512).
inline bool DecodeList(const uint8_t* p, size_t size, const uint8_t* readable, int64_t* out, size_t capacity,
                       size_t* count) {
  if (size == 0 || size > 64 || static_cast<size_t>(readable - p) < kReach) {
    return DecodeVarints(p, size, readable, out, capacity, count);
  }
  int64_t* const first = out;
  // Short of the end: the last one is cut off.
  if (DecodeBlock(p, p + size, &out, out + capacity) != p + size) return false;
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

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_VARINTS_H_
