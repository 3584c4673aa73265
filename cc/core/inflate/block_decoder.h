// The blocks of a Deflate stream (RFC 1951) from a buffer of compressed bytes into one of bytes.
//
// What it decodes is what zlib decodes. What zlib refuses, it refuses at the same byte or before.
#ifndef TF_BOOSTER_CC_CORE_INFLATE_BLOCK_DECODER_H_
#define TF_BOOSTER_CC_CORE_INFLATE_BLOCK_DECODER_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/inflate/huffman_table.h"

namespace tf_booster::inflate {

class BlockDecoder {
 public:
  // So many bytes behind the compressed ones may be read, and behind `out_limit` written.
  static constexpr size_t kInputMargin = 32, kOutputMargin = 320;
  // Where fewer compressed bytes are left than this, and the file has more, Decode asks for them.
  static constexpr size_t kWantedInput = 1024;

  enum class Result { kFull, kNeedsInput, kEnd, kOdd };

  struct Input {
    const uint8_t* at;
    const uint8_t* end;
    bool last;  // No bytes come behind them.
  };

  // Decodes until `*out` is at `out_limit` or up to kOutputMargin beyond, or as the result says: input is needed, the
  // last block has ended, or the stream is odd: damaged, or cut. Distances may reach back to `base`, which is at least
  // 32 KiB before `*out` where so much was decoded.
  Result Decode(Input* input, const uint8_t* base, uint8_t** out, const uint8_t* out_limit);

  // After kEnd: gives back the whole bytes that were taken and not used.
  void ReturnInput(Input* input);

 private:
  static constexpr int kRoot = 11, kDistanceRoot = 8, kLengthRoot = 7;
  static constexpr int kLengthSymbols = 288, kDistanceSymbols = 32, kCodeLengths = 19;
  enum class Part { kHeader, kStored, kCodes, kEnd };

  void Refill(Input* input);
  uint32_t Take(int bits);
  bool Overrun(const Input& input) const;
  // These return false for an odd stream.
  bool Header(Input* input);
  bool StoredHeader(Input* input);
  bool DynamicCodes(Input* input);
  bool FixedCodes();
  bool Stored(Input* input, uint8_t** out, const uint8_t* out_limit);
  bool Codes(Input* input, const uint8_t* base, uint8_t** out, const uint8_t* out_limit);

  Part part_ = Part::kHeader;
  bool last_block_ = false;
  uint64_t bits_ = 0;  // The next bits of the stream, the first one lowest.
  int num_bits_ = 0;   // How many of them count; those above are the stream's too, or 0.
  size_t stored_left_ = 0;
  Entry lengths_[TableSize(kRoot, kLengthSymbols)];
  Entry distances_[TableSize(kDistanceRoot, kDistanceSymbols)];
};

}  // namespace tf_booster::inflate

#endif  // TF_BOOSTER_CC_CORE_INFLATE_BLOCK_DECODER_H_
