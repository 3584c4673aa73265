// Files of TensorFlow's file systems as the record reader's sources of bytes, uncompressed on the way.
#ifndef TF_BOOSTER_CC_TF_DATASETS_FILE_SOURCE_H_
#define TF_BOOSTER_CC_TF_DATASETS_FILE_SOURCE_H_

#include <cstddef>
#include <string>

#include "cc/core/record_reader/byte_source.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/status.h"

namespace tf_booster {

// How a file is compressed: "", "GZIP" or "ZLIB". InvalidArgument, which begins with `op`, for others.
tensorflow::Status CheckCompression(const std::string& op, const std::string& compression);

// Opens files of `env`, compressed so; CheckCompression knows it. Errors have TensorFlow's codes and texts.
// whole_piece: bytes of compressed files that are read together or, where one of them is damaged, not at all; 0: all
// before a damage.
OpenByteSource OpenFilesOf(tensorflow::Env* env, const std::string& compression, size_t whole_piece);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_DATASETS_FILE_SOURCE_H_
