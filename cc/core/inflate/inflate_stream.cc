#include "cc/core/inflate/inflate_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/core/inflate/checksums.h"

namespace tf_booster::inflate {
namespace {

// RFC 1952, 2.3.1.
constexpr uint8_t kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xe0;

}  // namespace

InflateStream::InflateStream(Format format, ReadBytes read)
    : format_(format),
      read_(std::move(read)),
      input_bytes_(new uint8_t[kInput + BlockDecoder::kInputMargin]),
      bytes_(new uint8_t[kOutput + BlockDecoder::kOutputMargin]),
      input_{input_bytes_.get(), input_bytes_.get(), false},
      given_(bytes_.get()),
      out_(bytes_.get()),
      checksum_(format == Format::kGzip ? 0 : 1) {}

size_t InflateStream::Ready() const {
  const size_t held = ended_ ? 0 : kHeldBack, size = out_ - given_;
  return size > held ? size - held : 0;
}

size_t InflateStream::Read(size_t n, char* to) {
  size_t got = 0;
  while (got < n) {
    const size_t ready = std::min(Ready(), n - got);
    if (ready == 0) {
      if (ended_ || odd_) break;
      Produce();
      continue;
    }
    std::memcpy(to + got, given_, ready);
    given_ += ready;
    got += ready;
  }
  return got;
}

void InflateStream::Produce() {
  odd_ = !begun_ && !Begin();
  // Room: what is not handed out stays, and what distances may reach.
  const uint8_t* const keep =
      std::max(bytes_.get(), std::min(given_, out_ - std::min<size_t>(kHistory, out_ - bytes_.get())));
  if (const size_t shift = keep - bytes_.get(); shift > 0) {
    std::memmove(bytes_.get(), keep, out_ - keep);
    given_ -= shift;
    out_ -= shift;
  }
  uint8_t* const limit = bytes_.get() + kOutput;
  while (!odd_ && !ended_ && out_ < limit) {
    const uint8_t* const before = out_;
    const auto result = decoder_.Decode(&input_, bytes_.get(), &out_, std::min(limit, out_ + kPiece));
    const size_t n = out_ - before;
    checksum_ = format_ == Format::kGzip ? Crc32(checksum_, before, n) : Adler32(checksum_, before, n);
    size_ += static_cast<uint32_t>(n);
    switch (result) {
      case BlockDecoder::Result::kFull:
        break;
      case BlockDecoder::Result::kNeedsInput:
        odd_ = !FillInput();
        break;
      case BlockDecoder::Result::kEnd:
        ended_ = GoodEnd();
        odd_ = !ended_;
        break;
      case BlockDecoder::Result::kOdd:
        odd_ = true;
        break;
    }
  }
}

bool InflateStream::FillInput() {
  uint8_t* const begin = input_bytes_.get();
  size_t left = input_.end - input_.at;
  std::memmove(begin, input_.at, left);
  while (left < kInput && !input_.last) {
    size_t got = 0;
    if (!read_(kInput - left, reinterpret_cast<char*>(begin) + left, &got)) return false;
    input_.last = got == 0;
    left += got;
  }
  std::memset(begin + left, 0, BlockDecoder::kInputMargin);
  input_.at = begin;
  input_.end = begin + left;
  return true;
}

bool InflateStream::Begin() {
  begun_ = true;
  return FillInput() && SkipHeader(&input_.at);
}

bool InflateStream::SkipHeader(const uint8_t** at) const {
  const uint8_t* p = *at;
  const uint8_t* const end = input_.end;
  if (format_ == Format::kZlib) {
    if (end - p < 2) return false;
    const bool good = (p[0] & 15) == 8 && p[0] >> 4 <= 7 && (p[0] << 8 | p[1]) % 31 == 0 && (p[1] & 32) == 0;
    *at = p + 2;
    return good;
  }
  if (end - p < 10 || p[0] != 0x1f || p[1] != 0x8b || p[2] != 8) return false;
  const uint8_t flags = p[3];
  if ((flags & (kReserved | kHeaderCrc)) != 0) return false;
  p += 10;
  if ((flags & kExtra) != 0) {
    if (end - p < 2 || end - p - 2 < (p[0] | p[1] << 8)) return false;
    p += 2 + (p[0] | p[1] << 8);
  }
  for (const uint8_t text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    p = std::find(p, end, 0);
    if (p == end) return false;
    ++p;
  }
  *at = p;
  return true;
}

bool InflateStream::GoodEnd() {
  decoder_.ReturnInput(&input_);
  if (!input_.last && !FillInput()) return false;
  const uint8_t* const p = input_.at;
  const auto little = [p](int at) -> uint32_t {
    uint32_t value;
    std::memcpy(&value, p + at, sizeof(value));
    return value;
  };
  // Not one byte more: what zlib makes of it depends on what it is.
  if (format_ == Format::kGzip) return input_.end - p == 8 && little(0) == checksum_ && little(4) == size_;
  return input_.end - p == 4 && __builtin_bswap32(little(0)) == checksum_;
}

}  // namespace tf_booster::inflate
