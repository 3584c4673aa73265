// Protocol Buffers' wire format as the CodedInputStream of TensorFlow's parser reads it, its leniency included. Never
// reads past the limit. This is the careful reader; the scanner has quicker ones for what it has already checked.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_WIRE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tf_booster::example_parser {

constexpr uint8_t kLengthTag1 = 0x0a;  // Field 1, length-delimited; 2 and 3 likewise.
constexpr uint8_t kLengthTag2 = 0x12;
constexpr uint8_t kLengthTag3 = 0x1a;
constexpr uint8_t kVarintTag1 = 0x08;
constexpr uint8_t kFixed32Tag1 = 0x0d;
constexpr int kMaxVarintBytes = 10;

// CodedInputStream counts bytes in an int.
constexpr size_t kMaxRecordBytes = 0x7fffffff;

inline uint32_t Load32(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
inline uint64_t Load64(const uint8_t* p) {
  uint64_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

class WireReader {
 public:
  WireReader(const uint8_t* data, size_t size) : p_(data), limit_(data + size) {}

  const uint8_t* position() const { return p_; }
  size_t left() const { return static_cast<size_t>(limit_ - p_); }
  bool AtEnd() const { return p_ == limit_; }
  void Advance(size_t n) { p_ += n; }

  // At most 10 bytes; of the last one only the lowest bit counts.
  bool ReadVarint(uint64_t* value) {
    uint64_t result = 0;
    for (int i = 0; i < kMaxVarintBytes && p_ + i < limit_; ++i) {
      result |= static_cast<uint64_t>(p_[i] & 0x7f) << (7 * i);
      if (p_[i] < 0x80) {
        p_ += i + 1;
        *value = result;
        return true;
      }
    }
    return false;
  }
  // Bits above 32 are dropped.
  bool ReadVarint32(uint32_t* value) {
    uint64_t wide;
    if (!ReadVarint(&wide)) return false;
    *value = static_cast<uint32_t>(wide);
    return true;
  }

  // Takes the byte if it is this one.
  bool Expect(uint8_t tag) {
    if (AtEnd() || *p_ != tag) return false;
    ++p_;
    return true;
  }

  // A reader of the next `length` bytes. As PushLimit does it: a length of 2^31 or more, or past the limit, means all
  // that is left.
  WireReader Limited(uint32_t length) const {
    const bool all = length > 0x7fffffff || length >= left();
    return WireReader(p_, all ? left() : length);
  }

  // A length and as many bytes, which must be there.
  bool ReadString(const uint8_t** data, size_t* size) {
    uint32_t length;
    if (!ReadVarint32(&length) || length > left()) return false;
    *data = p_;
    *size = length;
    p_ += length;
    return true;
  }

  // Passes over a field that is not of tf.train.Example. Groups and undefined wire types are errors; a length past the
  // end means up to the end, and one of 2^31 or more means none: Skip's result goes unchecked in TensorFlow.
  bool SkipField() {
    uint32_t tag, length;
    uint64_t ignored;
    if (!ReadVarint32(&tag)) return false;
    switch (tag & 7) {
      case 0:
        return ReadVarint(&ignored);
      case 1:
        return SkipFixed(8);
      case 2:
        if (!ReadVarint32(&length)) return false;
        if (length <= 0x7fffffff) p_ += length < left() ? length : left();
        return true;
      case 5:
        return SkipFixed(4);
      default:
        return false;
    }
  }

 private:
  bool SkipFixed(size_t n) {
    if (left() < n) return false;
    p_ += n;
    return true;
  }

  const uint8_t* p_;
  const uint8_t* limit_;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_WIRE_H_
