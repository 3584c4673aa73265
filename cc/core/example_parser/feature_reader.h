// The values of one serialized tf.train.Feature: what SequenceExamples, and whoever walks the wire himself, build upon.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_READER_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_READER_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/cpu_features.h"
#include "cc/core/example_parser/parser_spec.h"
#include "cc/core/example_parser/value_array.h"

namespace tf_booster::example_parser {

enum class FeatureType : uint8_t { kEmpty = 0, kBytes = 1, kFloat = 2, kInt64 = 3, kUnsupported = 255 };

// By the first byte, as TensorFlow decides. `feature` is the serialized Feature.
FeatureType PeekFeatureType(const uint8_t* feature, size_t size);

// Append the values of a serialized Feature whose type was peeked. False: malformed; the array then holds what it held
// before. Lists may be packed or not; as in TensorFlow, what follows the first packed run or the list is ignored, and a
// length past the end means up to the end.
bool ReadInt64Feature(SimdLevel level, const uint8_t* feature, size_t size, ValueArray<int64_t>* values);
bool ReadFloatFeature(const uint8_t* feature, size_t size, ValueArray<float>* values);
bool ReadBytesFeature(const uint8_t* feature, size_t size, ValueArray<BytesView>* values);

// As ReadFloatFeature, for a row of `wanted` floats: a packed list's length is believed as far as the row needs its
// bytes, and says how many values it claims to have. TensorFlow compares that with the row's size.
bool ReadFloats(const uint8_t* feature, size_t size, size_t wanted, ValueArray<float>* values, size_t* claimed);

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_FEATURE_READER_H_
