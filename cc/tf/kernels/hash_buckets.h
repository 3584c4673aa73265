// The buckets that categorical_column_with_hash_bucket puts ids into: StringToHashBucketFast, after AsString for
// integers.
#ifndef TF_BOOSTER_CC_TF_KERNELS_HASH_BUCKETS_H_
#define TF_BOOSTER_CC_TF_KERNELS_HASH_BUCKETS_H_

#include <charconv>
#include <cstdint>

#include <external/farmhash_archive/src/farmhash.h>  // As TensorFlow's wheel has it.
#include "tensorflow/core/platform/stringpiece.h"
#include "tensorflow/core/platform/tstring.h"

namespace tf_booster {

// TensorFlow's Fingerprint64.
inline uint64_t Fingerprint(tensorflow::StringPiece text) {
  return NAMESPACE_FOR_HASH_FUNCTIONS::Fingerprint64(text.data(), text.size());
}

inline int64_t HashBucket(tensorflow::StringPiece text, int64_t buckets) {
  return static_cast<int64_t>(Fingerprint(text) % static_cast<uint64_t>(buckets));
}

// out[i] = the bucket of values[i]. With `keep_missing`, what a dense feature has in place of no id ('' or -1) gives
// -1.
template <class Id>
void HashToBuckets(const tensorflow::tstring* values, int64_t n, int64_t buckets, bool keep_missing, Id* out) {
  for (int64_t i = 0; i < n; ++i) {
    const tensorflow::tstring& text = values[i];
    out[i] = static_cast<Id>(keep_missing && text.empty() ? -1 : HashBucket(text, buckets));
  }
}

template <class T, class Id>
void HashToBuckets(const T* values, int64_t n, int64_t buckets, bool keep_missing, Id* out) {
  for (int64_t i = 0; i < n; ++i) {
    char digits[24];
    const char* end = std::to_chars(digits, digits + sizeof(digits), values[i]).ptr;
    const size_t length = static_cast<size_t>(end - digits);
    const tensorflow::StringPiece text(digits, length);
    out[i] = static_cast<Id>(keep_missing && values[i] == -1 ? -1 : HashBucket(text, buckets));
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_HASH_BUCKETS_H_
