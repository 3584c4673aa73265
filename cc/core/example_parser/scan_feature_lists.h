// The feature lists of a SequenceExample: a map as of an Example, but each value is a list of Features, the steps.
// Part of scanner.h.
//
//   0A <entry> 0A <klen> key… 12 <list> | 0A <step> <kind> <values> 0A <payload> | payload, 0A <step> …
//
// A step holds one id as a rule, so names cost nothing and the steps' own six bytes are all there is to check. While a
// step is shorter than 128 bytes, all of its lengths follow from the first, as those of a map's entry do (see
// slice_state.h): the six bytes are one word, and one comparison is the proof.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_FEATURE_LISTS_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_FEATURE_LISTS_H_

constexpr size_t kStepPrefix = 6;

// The six bytes of a step as if it had no length; byte 3 is 2 less than byte 1, and byte 5 is 4 less. From a length of
// 4 to one of 127 no byte borrows from the next one.
constexpr uint64_t StepPrefix(ValueType type) {
  return (uint64_t{kLengthTag1} | static_cast<uint64_t>(static_cast<uint8_t>(type) << 3 | 2) << 16 |
          static_cast<uint64_t>(kLengthTag1) << 32) -
         (uint64_t{2} << 24) - (uint64_t{4} << 40);
}
constexpr uint64_t kStepLengths = 0x010001000100;

// Whether at p stands a step shorter than 128 bytes with one packed list, or one string, of `payload` bytes. There are
// six bytes or more, and two before p that may be read: a list's own header.
inline bool IsShortStep(uint64_t prefix, const uint8_t* p, const uint8_t* end, size_t* payload) {
  const size_t step = p[1];
  *payload = step - 4;
  return step - 4 < 124 && step + 2 <= static_cast<size_t>(end - p) &&
         Load64(p - 2) >> 16 == prefix + step * kStepLengths;
}

// Where the steps of one list go: values to the end of the feature's array, their number to `lengths`.
template <class T>
struct StepOutputs {
  T* values;
  uint32_t* lengths;
  const T* values_end;
};

// Each of these takes short steps as long as they come, and returns where it stopped, or null for a malformed one.
inline const uint8_t* ScanShortSteps(const uint8_t* p, const uint8_t* end, StepOutputs<int64_t>* to) {
  constexpr uint64_t prefix = StepPrefix(ValueType::kInt64);
  size_t payload;
  while (static_cast<size_t>(end - p) > kStepPrefix && IsShortStep(prefix, p, end, &payload) && payload > 0) {
    size_t count = 1;
    if (!DecodeSingle(p + kStepPrefix, payload, to->values) &&
        !DecodeVarints(p + kStepPrefix, payload, end, to->values, static_cast<size_t>(to->values_end - to->values),
                       &count)) {
      return nullptr;
    }
    to->values += count;
    *to->lengths++ = static_cast<uint32_t>(count);
    p += kStepPrefix + payload;
  }
  return p;
}

inline const uint8_t* ScanShortSteps(const uint8_t* p, const uint8_t* end, StepOutputs<float>* to) {
  constexpr uint64_t prefix = StepPrefix(ValueType::kFloat);
  size_t payload;
  while (static_cast<size_t>(end - p) > kStepPrefix && IsShortStep(prefix, p, end, &payload)) {
    if (payload == sizeof(float)) {
      std::memcpy(to->values++, p + kStepPrefix, sizeof(float));
      *to->lengths++ = 1;
    } else {
      const size_t count = payload / sizeof(float);
      if (payload % sizeof(float) != 0) return nullptr;
      std::memcpy(to->values, p + kStepPrefix, payload);
      to->values += count;
      *to->lengths++ = static_cast<uint32_t>(count);
    }
    p += kStepPrefix + payload;
  }
  return p;
}

inline const uint8_t* ScanShortSteps(const uint8_t* p, const uint8_t* end, StepOutputs<BytesView>* to) {
  constexpr uint64_t prefix = StepPrefix(ValueType::kBytes);
  size_t payload;
  while (static_cast<size_t>(end - p) >= kStepPrefix && IsShortStep(prefix, p, end, &payload)) {
    *to->values++ = {reinterpret_cast<const char*>(p + kStepPrefix), payload};
    *to->lengths++ = 1;
    p += kStepPrefix + payload;
  }
  return p;
}

// One step of any plain form, the `step`-th of its list. Returns the next one, or null.
__attribute__((noinline)) const uint8_t* ScanAnyStep(const ExpectedFeature& expected, size_t step, const uint8_t* p,
                                                     const uint8_t* end) {
  size_t length;
  if (*p++ != kLengthTag1 || !ReadLength(&p, end, &length) || length > static_cast<size_t>(end - p)) return nullptr;
  return StoreFeature(expected, step, p, p + length, end) ? p + length : nullptr;
}

// Values of the list [p, end) at the most, for memory that was lent and may be just enough: exact while steps are
// short.
template <class T>
size_t CountStepValues(ValueType type, const uint8_t* p, const uint8_t* end) {
  const uint64_t prefix = StepPrefix(type);
  size_t values = 0, payload;
  while (static_cast<size_t>(end - p) > kStepPrefix && IsShortStep(prefix, p, end, &payload)) {
    values += type == ValueType::kInt64 ? CountVarints(p + kStepPrefix, payload) : payload / sizeof(T);
    p += kStepPrefix + payload;
  }
  const size_t left = static_cast<size_t>(end - p);
  return values + (type == ValueType::kInt64 ? VarintRoom(p, left) : left / sizeof(T));
}

// All steps of the list [p, end), whose feature's `lengths` have room for them. False: not plain.
template <class T>
bool ScanSteps(ValueType type, const ExpectedFeature& expected, const uint8_t* p, const uint8_t* end, size_t* steps) {
  auto* values = static_cast<ValueArray<T>*>(expected.out);
  const size_t before = values->size();
  // Counted once: of a long list that takes time. Strings: each has a step of its own.
  const size_t bytes = static_cast<size_t>(end - p);
  size_t most = type == ValueType::kInt64 ? VarintRoom(p, bytes) : bytes / sizeof(float);
  if (type != ValueType::kBytes && most > values->room()) most = CountStepValues<T>(type, p, end);
  for (*steps = 0; p < end;) {
    const size_t left = static_cast<size_t>(end - p);
    const size_t room = type == ValueType::kBytes ? left / kStepPrefix : most - (values->size() - before);
    T* const first = values->Reserve(room);
    StepOutputs<T> to = {first, expected.lengths + *steps, first + room};
    p = ScanShortSteps(p, end, &to);
    if (p == nullptr) return false;
    values->set_size(values->size() + static_cast<size_t>(to.values - first));
    *steps = static_cast<size_t>(to.lengths - expected.lengths);
    if (p == end) break;
    p = ScanAnyStep(expected, (*steps)++, p, end);
    if (p == nullptr) return false;
  }
  return true;
}

// A list into row `row` of feature `f`.
bool ScanFeatureList(SliceState& state, size_t f, const uint8_t* p, const uint8_t* end, size_t row) {
  ExpectedFeature& expected = state.expected[f];
  const FeatureSpec& feature = state.spec->features()[f];
  ValueArray<uint32_t>* lengths = state.lists[f].step_lengths;
  expected.lengths = lengths->Reserve(static_cast<size_t>(end - p) / 2 + 1);  // No step has less than two bytes.
  size_t steps;
  const bool plain = feature.type == ValueType::kInt64   ? ScanSteps<int64_t>(feature.type, expected, p, end, &steps)
                     : feature.type == ValueType::kFloat ? ScanSteps<float>(feature.type, expected, p, end, &steps)
                                                         : ScanSteps<BytesView>(feature.type, expected, p, end, &steps);
  if (!plain) return false;
  lengths->set_size(lengths->size() + steps);
  state.lists[f].lengths[row] = static_cast<uint32_t>(steps);
  if (feature.kind == FeatureKind::kVarLenDense) {
    uint32_t different = 0;
    for (size_t i = 0; i < steps; ++i) different |= expected.lengths[i] ^ static_cast<uint32_t>(feature.elements);
    state.lists[f].lengths[row] = static_cast<uint32_t>(steps * feature.elements);
    return different == 0;
  }
  return true;
}

bool ScanFeatureListsOfRecord(SliceState& state, const uint8_t* p, const uint8_t* end, size_t row) {
  size_t previous = state.size, required = state.num_required;
  while (p < end) {
    ++state.num_entries;
    EntryKey entry;
    if (!ReadEntryKey(p, end, &entry)) return false;
    const uint8_t* list = entry.key + entry.size;
    if (!ReadHeaderOfRest(kLengthTag2, &list, entry.end)) return false;
    p = entry.end;
    size_t f = state.expected[previous].next;
    if (!IsKey(state.expected[f], entry)) {
      const int32_t found = state.spec->index().Find(entry.key, entry.size);
      if (found < 0) continue;  // Nobody asked.
      f = static_cast<size_t>(found);
      state.expected[previous].next = static_cast<uint32_t>(f);
    }
    if (state.expected[f].seen == state.epoch) return false;
    state.expected[f].seen = state.epoch;
    if (!ScanFeatureList(state, f, list, entry.end, row)) return false;
    required -= state.spec->features()[f].required;
    previous = f;
  }
  return required == 0;
}

size_t ScanFeatureLists(SliceState& state, const Record* records, size_t begin, size_t n) {
  for (size_t i = begin; i < n; ++i) {
    state.NextRecord();
    const uint8_t* p = reinterpret_cast<const uint8_t*>(records[i].data);
    if (!ScanFeatureListsOfRecord(state, p, p + records[i].size, i)) return i;
  }
  return n;
}

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_SCAN_FEATURE_LISTS_H_
