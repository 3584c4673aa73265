// The bytes of a file one after another, through TensorFlow's file systems, uncompressed on the way.
#ifndef TF_BOOSTER_CC_TF_DATASETS_BYTE_SOURCE_H_
#define TF_BOOSTER_CC_TF_DATASETS_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads up to `n` bytes to `to`; `*got` fewer only where the file ends or fails. OutOfRange: the file ends behind
  // them. Other errors: it cannot be read further, the `*got` bytes are good.
  virtual tensorflow::Status Read(size_t n, char* to, size_t* got) = 0;

  // Goes on at byte `offset`, not before the present place. Bytes of compressed files are read to get there.
  virtual tensorflow::Status Skip(uint64_t offset) = 0;
};

// How a file is compressed: "", "GZIP" or "ZLIB". InvalidArgument for others.
tensorflow::Status CheckCompression(const std::string& compression);

// Opens `name`. `compression` is one that CheckCompression knows.
tensorflow::Status OpenByteSource(tensorflow::Env* env, const std::string& name, const std::string& compression,
                                  std::unique_ptr<ByteSource>* source);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_BYTE_SOURCE_H_
