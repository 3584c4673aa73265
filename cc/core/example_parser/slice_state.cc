#include "cc/core/example_parser/slice_state.h"

#include <algorithm>
#include <cstring>

#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser {
namespace {

Target TargetOf(const FeatureSpec& feature) {
  const bool fixed = feature.kind == FeatureKind::kFixedDense;
  switch (feature.type) {
    case ValueType::kInt64:
      return !fixed ? Target::kInt64Var : feature.elements == 1 ? Target::kInt64One : Target::kInt64Fixed;
    case ValueType::kFloat:
      return fixed ? Target::kFloatFixed : Target::kFloatVar;
    default:
      return fixed ? Target::kBytesFixed : Target::kBytesVar;
  }
}

size_t ElementBytes(ValueType type) {
  return type == ValueType::kInt64 ? sizeof(int64_t) : type == ValueType::kFloat ? sizeof(float) : sizeof(BytesView);
}

constexpr size_t kPrefixPadding = 32;

// Writes 0A 00 0A <klen> key… 12 and what the scanner compares with. Keys of 128 bytes and more have a klen of 0xFF
// there, which matches none.
void SetKey(const FeatureSpec& feature, uint8_t* prefix, ExpectedFeature* expected) {
  const size_t key = feature.name.size();
  uint8_t* p = prefix;
  *p++ = kLengthTag1;
  *p++ = 0;
  *p++ = kLengthTag1;
  *p++ = key < 128 ? static_cast<uint8_t>(key) : 0xff;
  if (key > 0) std::memcpy(p, feature.name.data(), key);
  p[key] = kLengthTag2;
  expected->prefix = prefix;
  expected->prefix_size = kNeverShort;
  if (key == 0 || key + 11 > 128) return;  // Even one byte of payload makes the entry 128 bytes long.

  const size_t size = key + 10;
  expected->prefix_size = static_cast<uint8_t>(size);
  expected->head = Load64(prefix);
  expected->head_shift = key < 3 ? static_cast<uint8_t>(8 * (3 - key)) : 0;
  expected->middle = Load64(prefix + MiddleAt(size));
  // The lengths as if the entry had none of its own: bytes below zero, put right when the entry's length is added.
  expected->tail = static_cast<uint64_t>(prefix[size - 8]) | static_cast<uint64_t>(prefix[size - 7]) << 8 |
                   static_cast<uint64_t>(kLengthTag2) << 16 |
                   static_cast<uint64_t>(static_cast<uint8_t>(feature.type) << 3 | 2) << 32 |
                   static_cast<uint64_t>(kLengthTag1) << 48;
  expected->tail -= static_cast<uint64_t>(key + 4) << 24;
  expected->tail -= static_cast<uint64_t>(key + 6) << 40;
  expected->tail -= static_cast<uint64_t>(key + 8) << 56;
}

}  // namespace

SliceState::SliceState(std::shared_ptr<const ParserSpec> the_spec)
    : spec(std::move(the_spec)), size(spec->size()), expected(new ExpectedFeature[size + 1]()) {
  size_t bytes = 0;
  for (const FeatureSpec& feature : spec->features()) bytes += feature.name.size() + 5 + kPrefixPadding;
  prefixes.assign(bytes + 5 + kPrefixPadding, 0);
  uint8_t* prefix = prefixes.data();
  for (size_t f = 0; f < size; ++f) {
    const FeatureSpec& feature = spec->features()[f];
    SetKey(feature, prefix, &expected[f]);
    prefix += feature.name.size() + 5 + kPrefixPadding;
    expected[f].target = TargetOf(feature);
    expected[f].elements = 1;
    if (feature.kind == FeatureKind::kFixedDense || feature.kind == FeatureKind::kVarLenDense) {
      expected[f].elements = static_cast<uint32_t>(feature.elements);
    }
    expected[f].next = static_cast<uint32_t>(f + 1 < size ? f + 1 : 0);
    if (feature.kind == FeatureKind::kFixedDense) fixed.push_back(static_cast<uint32_t>(f));
    num_required += feature.required;
  }
  ExpectedFeature& start = expected[size];
  start.prefix_size = kNeverShort;
  start.prefix = prefix;  // Only zeros but for
  prefix[3] = 0xff;       // a klen that no key has.
  start.target = Target::kNone;
}

void SliceState::Empty(ParsedSlice* slice) {
  slice->columns_.resize(size);
  for (ParsedSlice::Column& column : slice->columns_) {
    column.int64s.clear();
    column.floats.clear();
    column.bytes.clear();
    column.lengths.clear();
    column.step_lengths.clear();
  }
  slice->num_records_ = 0;
  slice->num_entries_ = 0;
}

void SliceState::Start(ParsedSlice* slice, void* const* fixed_outputs, size_t first_row, size_t n) {
  num_entries = 0;
  lists.clear();
  for (size_t f = 0; f < size; ++f) {
    const FeatureSpec& feature = spec->features()[f];
    ParsedSlice::Column& column = slice->columns_[f];
    if (feature.kind != FeatureKind::kFixedDense) {
      expected[f].lengths = column.lengths.Reserve(n);
      std::fill_n(expected[f].lengths, n, 0u);  // Where no record is to be parsed there may be no place.
      expected[f].out = feature.type == ValueType::kInt64   ? static_cast<void*>(&column.int64s)
                        : feature.type == ValueType::kFloat ? static_cast<void*>(&column.floats)
                                                            : static_cast<void*>(&column.bytes);
    } else if (feature.type == ValueType::kBytes) {
      expected[f].out = column.bytes.Reserve(n * feature.elements);
    } else {
      const size_t row_bytes = feature.elements * ElementBytes(feature.type);
      expected[f].out = row_bytes == 0 ? nullptr : static_cast<char*>(fixed_outputs[f]) + first_row * row_bytes;
    }
  }
  if (spec->semantics() == Semantics::kFeatureLists) {
    for (size_t f = 0; f < size; ++f) lists.push_back({&slice->columns_[f].step_lengths, expected[f].lengths});
  }
  WriteFrequentDefaults(n);
}

void SliceState::TakeBack(size_t row) {
  for (size_t f = 0; f < size; ++f) {
    ExpectedFeature& feature = expected[f];
    if (feature.seen != epoch || feature.lengths == nullptr) continue;
    if (feature.target == Target::kInt64Var) {
      auto* values = static_cast<ValueArray<int64_t>*>(feature.out);
      values->set_size(values->size() - feature.lengths[row]);
    } else if (feature.target == Target::kFloatVar) {
      auto* values = static_cast<ValueArray<float>*>(feature.out);
      values->set_size(values->size() - feature.lengths[row]);
    } else {
      auto* values = static_cast<ValueArray<BytesView>*>(feature.out);
      values->set_size(values->size() - feature.lengths[row]);
    }
    feature.lengths[row] = 0;
  }
}

void SliceState::WriteFrequentDefaults(size_t n) {
  // Where one record in 16 or more lacks a feature, writing its default to all rows costs less than finding out which
  // lack it: 0.3 ns a row, against 5 to 10 ns for each that does. Every 16th slice looks again.
  const bool known = slices++ % 16 != 0;
  if (!known) missing.assign(size, 0);
  counted.clear();
  for (uint32_t f : fixed) {
    const bool often = known && missing[f] > last_rows / 16;
    expected[f].counted = !often;
    if (!often) counted.push_back(f);
    for (size_t row = 0; often && row < n; ++row) WriteDefault(*spec, expected[f], f, row);
  }
  if (!known) last_rows = n;
}

void SliceState::Finish(ParsedSlice* slice, size_t n) {
  for (size_t f = 0; f < size; ++f) {
    const FeatureSpec& feature = spec->features()[f];
    if (feature.kind != FeatureKind::kFixedDense) {
      slice->columns_[f].lengths.set_size(slice->num_records_ + n);
    } else if (feature.type == ValueType::kBytes) {
      slice->columns_[f].bytes.set_size((slice->num_records_ + n) * feature.elements);
    }
  }
  slice->num_records_ += n;
  slice->num_entries_ += num_entries;
}

bool WriteDefault(const ParserSpec& spec, const ExpectedFeature& expected, size_t feature, size_t row) {
  const FeatureSpec& wanted = spec.features()[feature];
  if (wanted.required) return false;
  if (wanted.elements == 0) return true;
  const void* values = wanted.type == ValueType::kInt64   ? static_cast<const void*>(wanted.default_int64.data())
                       : wanted.type == ValueType::kFloat ? static_cast<const void*>(wanted.default_float.data())
                                                          : static_cast<const void*>(spec.default_views(feature));
  const size_t bytes = wanted.elements * ElementBytes(wanted.type);
  std::memcpy(static_cast<char*>(expected.out) + row * bytes, values, bytes);
  return true;
}

}  // namespace tf_booster::example_parser
