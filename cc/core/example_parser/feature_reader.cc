#include "cc/core/example_parser/feature_reader.h"

#include <cstring>

#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser {
namespace {

// The list behind the feature's first tag. False: there is no length.
bool ReadList(const uint8_t* feature, size_t size, WireReader* list) {
  WireReader reader(feature, size);
  uint32_t length;
  if (reader.AtEnd()) return false;
  reader.Advance(1);
  if (!reader.ReadVarint32(&length)) return false;
  *list = reader.Limited(length);
  return true;
}

}  // namespace

FeatureType PeekFeatureType(const uint8_t* feature, size_t size) {
  if (size == 0) return FeatureType::kEmpty;
  switch (*feature) {
    case kLengthTag1:
      return FeatureType::kBytes;
    case kLengthTag2:
      return FeatureType::kFloat;
    case kLengthTag3:
      return FeatureType::kInt64;
    default:
      return FeatureType::kUnsupported;
  }
}

bool ReadInt64Feature(SimdLevel level, const uint8_t* feature, size_t size, ValueArray<int64_t>* values) {
  WireReader list(nullptr, 0);
  if (!ReadList(feature, size, &list)) return false;
  if (list.AtEnd()) return true;
  const size_t before = values->size();
  if (list.Expect(kLengthTag1)) {
    uint32_t length;
    if (!list.ReadVarint32(&length)) return false;
    const WireReader packed = list.Limited(length);
    const size_t room = VarintRoom(packed.position(), packed.left());
    int64_t* out = values->Reserve(room);
    size_t count;
    if (!ScanFor(level).decode_varints(packed.position(), packed.left(), feature + size, out, room, &count)) {
      return false;
    }
    values->set_size(before + count);
    return true;
  }
  while (!list.AtEnd()) {
    uint64_t value;
    if (!list.Expect(kVarintTag1) || !list.ReadVarint(&value)) {
      values->set_size(before);
      return false;
    }
    values->push_back(static_cast<int64_t>(value));
  }
  return true;
}

bool ReadFloatFeature(const uint8_t* feature, size_t size, ValueArray<float>* values) {
  size_t claimed;
  return ReadFloats(feature, size, SIZE_MAX, values, &claimed);
}

bool ReadFloats(const uint8_t* feature, size_t size, size_t wanted, ValueArray<float>* values, size_t* claimed) {
  WireReader list(nullptr, 0);
  *claimed = 0;
  if (!ReadList(feature, size, &list)) return false;
  if (list.AtEnd()) return true;
  const size_t before = values->size();
  if (list.Expect(kLengthTag1)) {
    uint32_t length;
    if (!list.ReadVarint32(&length)) return false;
    *claimed = length / sizeof(float);
    const size_t count = *claimed < wanted ? *claimed : wanted;
    if (count > list.left() / sizeof(float)) return false;
    if (count == 0) return true;
    std::memcpy(values->Reserve(count), list.position(), count * sizeof(float));
    values->set_size(before + count);
    return true;
  }
  for (; !list.AtEnd(); ++*claimed) {
    if (!list.Expect(kFixed32Tag1) || list.left() < sizeof(float)) {
      values->set_size(before);
      return false;
    }
    float value;
    std::memcpy(&value, list.position(), sizeof(value));
    list.Advance(sizeof(value));
    values->push_back(value);
  }
  return true;
}

bool ReadBytesFeature(const uint8_t* feature, size_t size, ValueArray<BytesView>* values) {
  WireReader list(nullptr, 0);
  if (!ReadList(feature, size, &list)) return false;
  const size_t before = values->size();
  while (!list.AtEnd()) {
    const uint8_t* data;
    size_t length;
    if (!list.Expect(kLengthTag1) || !list.ReadString(&data, &length)) {
      values->set_size(before);
      return false;
    }
    values->push_back({reinterpret_cast<const char*>(data), length});
  }
  return true;
}

}  // namespace tf_booster::example_parser
