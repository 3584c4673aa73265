#include "cc/core/example_parser/exact_record.h"

#include <cstring>

#include "cc/core/example_parser/feature_reader.h"
#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser {
namespace {

bool Fail(ParseError* error, ParseErrorKind kind, int32_t feature) {
  error->kind = kind;
  error->feature = feature;
  return false;
}

// Key and feature, in any order; a field that comes twice counts the last time, for there must be two.
bool ReadEntry(WireReader reader, MapEntry* entry) {
  *entry = MapEntry{};
  for (int i = 0; i < 2; ++i) {
    uint32_t tag;
    if (!reader.ReadVarint32(&tag)) return false;
    if (tag == kLengthTag1) {
      if (!reader.ReadString(&entry->key, &entry->key_size)) return false;
    } else if (tag == kLengthTag2) {
      if (!reader.ReadString(&entry->feature, &entry->feature_size)) return false;
    } else {
      return false;
    }
  }
  return reader.AtEnd();
}

bool ReadEntries(const Record& record, std::vector<MapEntry>* entries) {
  entries->clear();
  if (record.size > kMaxRecordBytes) return false;
  WireReader reader(reinterpret_cast<const uint8_t*>(record.data), record.size);
  while (!reader.AtEnd()) {
    if (!reader.Expect(kLengthTag1)) {
      if (!reader.SkipField()) return false;
      continue;
    }
    uint32_t length;
    if (!reader.ReadVarint32(&length)) return false;
    WireReader features = reader.Limited(length);
    reader.Advance(features.left());
    while (!features.AtEnd()) {
      if (!features.Expect(kLengthTag1) || !features.ReadVarint32(&length)) return false;
      const WireReader entry = features.Limited(length);
      features.Advance(entry.left());
      entries->emplace_back();
      if (!ReadEntry(entry, &entries->back())) return false;
    }
  }
  return true;
}

// The arrays that a feature's values go to: for varying lengths the slice's own, at their ends; for fixed rows scratch.
template <class T>
ValueArray<T>* Destination(const ExpectedFeature& expected, ValueArray<T>* scratch) {
  if (expected.lengths != nullptr) return static_cast<ValueArray<T>*>(expected.out);
  scratch->clear();
  return scratch;
}

class RecordParser {
 public:
  RecordParser(SliceState& state, SimdLevel level, size_t row, ParseError* error)
      : state_(state), level_(level), row_(row), error_(error) {}

  bool Parse(const Record& record) {
    if (!ReadEntries(record, &state_.entries)) return Fail(error_, ParseErrorKind::kBadRecord, -1);
    state_.num_entries += state_.entries.size();
    // Backwards, so that the last entry of a key comes first and the ones before it can be passed over.
    for (size_t i = state_.entries.size(); i-- > 0;) {
      const MapEntry& entry = state_.entries[i];
      const int32_t f = state_.spec->index().Find(entry.key, entry.key_size);
      if (f >= 0 && !TakeEntry(entry, f)) return false;
    }
    for (uint32_t f : state_.fixed) {
      ExpectedFeature& expected = state_.expected[f];
      if (expected.seen != state_.epoch && !WriteDefault(*state_.spec, expected, f, row_)) {
        return Fail(error_, ParseErrorKind::kMissing, static_cast<int32_t>(f));
      }
    }
    return true;
  }

 private:
  bool TakeEntry(const MapEntry& entry, int32_t f) {
    const FeatureSpec& feature = state_.spec->features()[f];
    ExpectedFeature& expected = state_.expected[f];
    const FeatureType type = PeekFeatureType(entry.feature, entry.feature_size);
    if (type == FeatureType::kUnsupported) return Fail(error_, ParseErrorKind::kUnsupportedType, f);
    const bool dense = feature.kind == FeatureKind::kFixedDense || feature.kind == FeatureKind::kVarLenDense;
    // A feature with no kind set is as good as absent, unless it is the last word on a sparse one of a batch.
    const bool empty = type == FeatureType::kEmpty;
    if (empty && (dense || state_.spec->semantics() == Semantics::kSingle)) return true;
    if (expected.seen == state_.epoch) return true;
    expected.seen = state_.epoch;
    if (empty) return true;
    if (static_cast<uint8_t>(type) != static_cast<uint8_t>(feature.type)) {
      error_->found_type = static_cast<ValueType>(type);
      return Fail(error_, ParseErrorKind::kTypeMismatch, f);
    }
    size_t count;
    if (!ReadValues(entry, feature, expected, &count)) return Fail(error_, ParseErrorKind::kBadList, f);
    error_->found_count = count;
    if (feature.kind == FeatureKind::kFixedDense && count != feature.elements) {
      // TensorFlow finds no room for the string, and says that the list cannot be parsed.
      const bool too_many = feature.type == ValueType::kBytes && count > feature.elements;
      return Fail(error_, too_many ? ParseErrorKind::kBadList : ParseErrorKind::kWrongCount, f);
    }
    if (feature.kind == FeatureKind::kVarLenDense && count % feature.elements != 0) {
      return Fail(error_, ParseErrorKind::kNotMultiple, f);
    }
    return true;
  }

  // Values to where they belong; `count`: how many there are, or are claimed to be.
  bool ReadValues(const MapEntry& entry, const FeatureSpec& feature, ExpectedFeature& expected, size_t* count) {
    switch (feature.type) {
      case ValueType::kInt64: {
        ValueArray<int64_t>* values = Destination(expected, &state_.int64s);
        const size_t before = values->size();
        if (!ReadInt64Feature(level_, entry.feature, entry.feature_size, values)) return false;
        *count = values->size() - before;
        return Place(*values, before, *count, expected);
      }
      case ValueType::kFloat: {
        ValueArray<float>* values = Destination(expected, &state_.floats);
        const size_t before = values->size();
        const size_t wanted = expected.lengths == nullptr ? feature.elements : SIZE_MAX;
        if (!ReadFloats(entry.feature, entry.feature_size, wanted, values, count)) return false;
        return Place(*values, before, *count, expected);
      }
      default: {
        ValueArray<BytesView>* values = Destination(expected, &state_.bytes);
        const size_t before = values->size();
        if (!ReadBytesFeature(entry.feature, entry.feature_size, values)) return false;
        *count = values->size() - before;
        return Place(*values, before, *count, expected);
      }
    }
  }

  template <class T>
  bool Place(const ValueArray<T>& values, size_t before, size_t count, ExpectedFeature& expected) {
    if (expected.lengths != nullptr) {
      expected.lengths[row_] = static_cast<uint32_t>(count);
    } else if (count == expected.elements && count > 0) {
      std::memcpy(static_cast<T*>(expected.out) + row_ * count, values.data() + before, count * sizeof(T));
    }
    return true;
  }

  SliceState& state_;
  const SimdLevel level_;
  const size_t row_;
  ParseError* const error_;
};

}  // namespace

bool ParseExactly(SliceState& state, SimdLevel level, const Record& record, size_t row, ParseError* error) {
  *error = ParseError{};
  state.NextRecord();
  return RecordParser(state, level, row, error).Parse(record);
}

}  // namespace tf_booster::example_parser
