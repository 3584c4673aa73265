// From lists to where a feature's values belong. Part of scanner.h.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_VALUES_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_VALUES_H_

// Room for values at the end of an array, or in a fixed row.
inline int64_t* RoomForVarints(const ExpectedFeature& expected, size_t row, const uint8_t* p, size_t size,
                               size_t* capacity) {
  if (expected.lengths == nullptr) {
    *capacity = expected.elements;
    return static_cast<int64_t*>(expected.out) + row * expected.elements;
  }
  auto* values = static_cast<ValueArray<int64_t>*>(expected.out);
  *capacity = VarintRoom(p, size);
  // Memory that was lent may be just enough.
  if (*capacity > values->room()) *capacity = CountVarints(p, size);
  return values->Reserve(*capacity);
}

// The next record's list belongs behind this one, and will be as long. Its lines are asked for now: columns are too
// many for the processor to foresee, and where other work has emptied the caches, stores into them wait. 26 lists of 20
// ids, out of the caches: 490 ns a record against 640. Of longer lists the processor sees the rest coming; asking for
// all of 200 values cost a tenth. gcc 12 drops calls of functions that only prefetch unless it must inline them.
__attribute__((always_inline)) inline void PrefetchNext(const int64_t* next, size_t count) {
  for (size_t i = 0; i < count && i < 32; i += 8) __builtin_prefetch(next + i, 1);
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
  if (!DecodeList(p, size, readable, out, capacity, &count)) return false;
  PrefetchNext(out + count, count);
  return Commit<int64_t>(expected, row, count);
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
    case Target::kFloatVar:
      if (size == sizeof(float)) {
        std::memcpy(static_cast<ValueArray<float>*>(expected.out)->Reserve(1), p, sizeof(float));
        return Commit<float>(expected, row, 1);
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

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_VALUES_H_
