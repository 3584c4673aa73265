#include "cc/tf/datasets/file_source.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cc/tf/kernels/status.h"
#include "tensorflow/core/lib/io/random_inputstream.h"
#include "tensorflow/core/lib/io/zlib_compression_options.h"
#include "tensorflow/core/lib/io/zlib_inputstream.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using TfStatus = tensorflow::Status;

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<tensorflow::RandomAccessFile> file) : file_(std::move(file)) {}

  Status Read(size_t n, char* to, size_t* got) override {
    tensorflow::StringPiece bytes;
    const TfStatus status = file_->Read(offset_, n, &bytes, to);
    *got = 0;
    if (!status.ok() && !tensorflow::errors::IsOutOfRange(status)) return FromTensorFlow(status);
    // Some file systems answer with memory of their own.
    if (bytes.data() != to && !bytes.empty()) std::memmove(to, bytes.data(), bytes.size());
    *got = bytes.size();
    offset_ += bytes.size();
    return FromTensorFlow(status);
  }

  Status Skip(uint64_t offset) override {
    offset_ = offset;
    return Status();
  }

 private:
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  uint64_t offset_ = 0;
};

class CompressedSource final : public ByteSource {
 public:
  // whole_piece: bytes that are uncompressed together, so that of a piece with a damage nothing is read; 0: what comes
  // before the damage is.
  CompressedSource(std::unique_ptr<tensorflow::RandomAccessFile> file, const std::string& compression,
                   size_t whole_piece)
      : file_(std::move(file)), whole_(whole_piece > 0), wanted_(whole_ ? whole_piece : kPiece) {
    const auto options = compression == "GZIP" ? tensorflow::io::ZlibCompressionOptions::GZIP()
                                               : tensorflow::io::ZlibCompressionOptions::DEFAULT();
    // TensorFlow's own buffer sizes: of a damaged file, as many records can be read here as there.
    stream_ = std::make_unique<tensorflow::io::ZlibInputStream>(
        new tensorflow::io::RandomAccessInputStream(file_.get()), whole_ ? whole_piece : options.input_buffer_size,
        whole_ ? whole_piece : options.output_buffer_size, options, /*owns_input_stream=*/true);
  }

  Status Read(size_t n, char* to, size_t* got) override {
    *got = 0;
    while (*got < n) {
      if (at_ == piece_.size()) {
        if (!status_.ok()) return FromTensorFlow(status_);
        Fill();
      }
      const size_t some = std::min(n - *got, piece_.size() - at_);
      std::memcpy(to + *got, piece_.data() + at_, some);
      *got += some;
      at_ += some;
      place_ += some;
    }
    return Status();
  }

  Status Skip(uint64_t offset) override {
    const uint64_t n = offset - place_, left = piece_.size() - at_;
    place_ = offset;
    at_ += std::min(n, left);
    return n <= left ? Status() : FromTensorFlow(stream_->SkipNBytes(static_cast<int64_t>(n - left)));
  }

 private:
  static constexpr size_t kPiece = 128 << 10;  // Stays in the second-level cache until it is copied.

  void Fill() {
    status_ = stream_->ReadNBytes(wanted_, &piece_);
    if (whole_ && !status_.ok() && !tensorflow::errors::IsOutOfRange(status_)) piece_.clear();
    at_ = 0;
  }

  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  std::unique_ptr<tensorflow::io::ZlibInputStream> stream_;
  const bool whole_;
  const size_t wanted_;
  tensorflow::tstring piece_;
  size_t at_ = 0;       // In piece_, of the next byte.
  uint64_t place_ = 0;  // Of it in the file.
  TfStatus status_;     // Behind piece_.
};

}  // namespace

TfStatus CheckCompression(const std::string& op, const std::string& compression) {
  if (compression.empty() || compression == "GZIP" || compression == "ZLIB") return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(op, ": compression is '", compression, "'; wanted '', 'GZIP' or 'ZLIB'");
}

OpenByteSource OpenFilesOf(tensorflow::Env* env, const std::string& compression, size_t whole_piece) {
  return [env, compression, whole_piece](const std::string& name, std::unique_ptr<ByteSource>* source) {
    std::unique_ptr<tensorflow::RandomAccessFile> file;
    const TfStatus opened = env->NewRandomAccessFile(name, &file);
    if (!opened.ok()) return FromTensorFlow(opened);
    if (compression.empty()) {
      *source = std::make_unique<PlainSource>(std::move(file));
    } else {
      *source = std::make_unique<CompressedSource>(std::move(file), compression, whole_piece);
    }
    return Status();
  };
}

}  // namespace tf_booster
