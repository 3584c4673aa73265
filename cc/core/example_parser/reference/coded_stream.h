// Protocol Buffers' CodedInputStream over one array, as slow and plain as can be: a position, a limit, and limits
// pushed and popped as TensorFlow's parser does it. Written apart from ../wire.h, against which it is held.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_CODED_STREAM_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_CODED_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tf_booster::example_parser::reference {

class CodedStream {
 public:
  explicit CodedStream(std::string_view bytes) : bytes_(bytes), limit_(static_cast<int64_t>(bytes.size())) {}

  bool ExpectAtEnd() const { return position_ == limit_; }
  int64_t BytesUntilLimit() const { return limit_ - position_; }

  int64_t PushLimit(uint32_t length) {
    const int64_t old = limit_;
    const int32_t as_int = static_cast<int32_t>(length);
    if (as_int >= 0 && position_ + as_int < limit_) limit_ = position_ + as_int;
    return old;
  }
  void PopLimit(int64_t limit) { limit_ = limit; }

  std::optional<uint8_t> Peek() const {
    if (ExpectAtEnd()) return std::nullopt;
    return static_cast<uint8_t>(bytes_[position_]);
  }

  bool ExpectTag(uint8_t tag) {
    if (Peek() != tag) return false;
    ++position_;
    return true;
  }

  std::optional<uint64_t> ReadVarint64() {
    uint64_t value = 0;
    for (int i = 0; i < 10; ++i) {
      const std::optional<uint8_t> byte = Peek();
      if (!byte) return std::nullopt;
      ++position_;
      if (i == 9) {
        value |= static_cast<uint64_t>(*byte & 1) << 63;
      } else {
        value |= static_cast<uint64_t>(*byte & 0x7f) << (7 * i);
      }
      if (*byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<uint32_t> ReadVarint32() {
    const std::optional<uint64_t> value = ReadVarint64();
    if (!value) return std::nullopt;
    return static_cast<uint32_t>(*value);
  }

  // The next bytes, or nothing if there are fewer.
  std::optional<std::string_view> ReadRaw(int64_t size) {
    if (size < 0 || size > BytesUntilLimit()) return std::nullopt;
    const std::string_view raw = bytes_.substr(position_, size);
    position_ += size;
    return raw;
  }
  // Length and bytes.
  std::optional<std::string_view> ReadString() {
    const std::optional<uint32_t> length = ReadVarint32();
    if (!length) return std::nullopt;
    return ReadRaw(*length);
  }

  // Stops at the limit; a negative count moves nothing.
  void Skip(uint32_t count) {
    const int32_t as_int = static_cast<int32_t>(count);
    if (as_int < 0) return;
    position_ = position_ + as_int > limit_ ? limit_ : position_ + as_int;
  }

 private:
  std::string_view bytes_;
  int64_t position_ = 0;
  int64_t limit_;
};

}  // namespace tf_booster::example_parser::reference

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_REFERENCE_CODED_STREAM_H_
