// gzip and zlib streams uncompressed, twice as fast as by zlib: for files that are as they should be.
//
// Whoever meets an odd stream reads it by zlib again, which knows all its errors, and how many bytes can be had before
// them. So this one gives no bytes that zlib, called for up to kHeldBack bytes at a time, could have lost at an error.
#ifndef TF_BOOSTER_CC_CORE_INFLATE_INFLATE_STREAM_H_
#define TF_BOOSTER_CC_CORE_INFLATE_INFLATE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "cc/core/inflate/block_decoder.h"

namespace tf_booster::inflate {

class InflateStream {
 public:
  enum class Format { kGzip, kZlib };
  // Reads up to `n` compressed bytes; `*got` is 0 where the file ends only. False: it cannot be read.
  using ReadBytes = std::function<bool(size_t n, char* to, size_t* got)>;

  static constexpr size_t kHeldBack = 256 << 10;

  InflateStream(Format format, ReadBytes read);

  // Up to `n` bytes; fewer where the stream has ended, or is odd: damaged, cut, followed by something, or with a header
  // as few have it.
  size_t Read(size_t n, char* to);
  bool odd() const { return odd_; }

 private:
  static constexpr size_t kHistory = 32 << 10;
  static constexpr size_t kInput = 128 << 10;
  static constexpr size_t kPiece = 32 << 10;  // Has its checksum taken while it is in the first-level cache.
  static constexpr size_t kOutput = kHistory + 3 * kHeldBack;

  size_t Ready() const;
  void Produce();
  bool FillInput();
  bool Begin();
  bool SkipHeader(const uint8_t** at) const;
  bool GoodEnd();

  const Format format_;
  const ReadBytes read_;
  BlockDecoder decoder_;
  std::unique_ptr<uint8_t[]> input_bytes_, bytes_;
  BlockDecoder::Input input_;
  uint8_t* given_;  // All before was handed out.
  uint8_t* out_;    // All before is uncompressed.
  uint32_t checksum_;
  uint32_t size_ = 0;  // Of all, modulo 2^32.
  bool begun_ = false, ended_ = false, odd_ = false;
};

}  // namespace tf_booster::inflate

#endif  // TF_BOOSTER_CC_CORE_INFLATE_INFLATE_STREAM_H_
