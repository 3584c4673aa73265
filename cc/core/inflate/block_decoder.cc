#include "cc/core/inflate/block_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tf_booster::inflate {
namespace {

constexpr uint32_t kMaskOf(int bits) { return (uint32_t{1} << bits) - 1; }

// The lengths and distances of RFC 1951, 3.2.5: groups of 4 and of 2 symbols, each with one extra bit more.
constexpr std::array<Entry, 288> MakeLengthMeanings() {
  std::array<Entry, 288> meanings{};
  for (uint32_t i = 0; i < 256; ++i) meanings[i] = Meaning(i, 0, kLiteral);
  meanings[256] = kEnd;
  uint32_t length = 3;
  for (uint32_t i = 257; i < 285; ++i) {
    const int extra = i < 265 ? 0 : static_cast<int>(i - 261) / 4;
    meanings[i] = Meaning(length, extra);
    length += 1u << extra;
  }
  meanings[285] = Meaning(258, 0);
  meanings[286] = meanings[287] = kNoCode;
  return meanings;
}

constexpr std::array<Entry, 32> MakeDistanceMeanings() {
  std::array<Entry, 32> meanings{};
  uint32_t distance = 1;
  for (uint32_t i = 0; i < 30; ++i) {
    const int extra = i < 4 ? 0 : static_cast<int>(i - 2) / 2;
    meanings[i] = Meaning(distance, extra);
    distance += 1u << extra;
  }
  meanings[30] = meanings[31] = kNoCode;
  return meanings;
}

// Of the codes that give the lengths of codes: themselves, or repetitions with extra bits.
constexpr std::array<Entry, 19> MakeCodeLengthMeanings() {
  std::array<Entry, 19> meanings{};
  for (uint32_t i = 0; i < 19; ++i) meanings[i] = Meaning(i, i < 16 ? 0 : i == 16 ? 2 : i == 17 ? 3 : 7);
  return meanings;
}

constexpr auto kLengthMeanings = MakeLengthMeanings();
constexpr auto kDistanceMeanings = MakeDistanceMeanings();
constexpr auto kCodeLengthMeanings = MakeCodeLengthMeanings();
constexpr uint8_t kCodeLengthOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

// Makes 56 bits or more of them count, without a branch: bytes that fit in part are read again the next time, to where
// they stand already.
inline void FillBits(const uint8_t*& in, uint64_t& bits, int& num_bits) {
  uint64_t word;
  std::memcpy(&word, in, sizeof(word));
  bits |= word << num_bits;
  in += (63 - num_bits) >> 3;
  num_bits |= 56;
}

// The value of an entry with the extra bits that stand behind its code.
inline uint32_t WithExtraBits(Entry e, uint64_t bits) {
  return ValueOf(e) + static_cast<uint32_t>((bits & ((uint64_t{1} << BitsOf(e)) - 1)) >> CodeBitsOf(e));
}

// Writes up to 32 bytes too many.
inline void CopyMatch(uint8_t* out, uint32_t distance, uint32_t length) {
  const uint8_t* from = out - distance;
  uint8_t* const end = out + length;
  if (distance >= 16) {
    do {
      std::memcpy(out, from, 16);
      out += 16, from += 16;
    } while (out < end);
  } else if (distance >= 8) {
    do {
      std::memcpy(out, from, 8);
      out += 8, from += 8;
    } while (out < end);
  } else if (distance == 1) {
    std::memset(out, *from, length);
  } else {
    while (out < end) *out++ = *from++;
  }
}

}  // namespace

void BlockDecoder::Refill(Input* input) { FillBits(input->at, bits_, num_bits_); }

uint32_t BlockDecoder::Take(int bits) {
  const uint32_t taken = static_cast<uint32_t>(bits_) & kMaskOf(bits);
  bits_ >>= bits;
  num_bits_ -= bits;
  return taken;
}

bool BlockDecoder::Overrun(const Input& input) const { return input.at - num_bits_ / 8 > input.end; }

void BlockDecoder::ReturnInput(Input* input) {
  input->at -= num_bits_ / 8;
  num_bits_ %= 8;
  bits_ &= kMaskOf(num_bits_);
}

BlockDecoder::Result BlockDecoder::Decode(Input* input, const uint8_t* base, uint8_t** out, const uint8_t* out_limit) {
  while (true) {
    if (part_ == Part::kEnd) return Result::kEnd;
    if (*out >= out_limit) return Result::kFull;
    if (!input->last && input->end - input->at < static_cast<ptrdiff_t>(kWantedInput)) return Result::kNeedsInput;
    bool odd = false;
    switch (part_) {
      case Part::kHeader:
        odd = !Header(input);
        break;
      case Part::kStored:
        odd = !Stored(input, out, out_limit);
        break;
      case Part::kCodes:
        odd = !Codes(input, base, out, out_limit);
        break;
      case Part::kEnd:
        break;
    }
    if (odd || Overrun(*input)) return Result::kOdd;
  }
}

bool BlockDecoder::Header(Input* input) {
  Refill(input);
  last_block_ = Take(1) != 0;
  const uint32_t kind = Take(2);
  part_ = kind == 0 ? Part::kStored : Part::kCodes;
  return kind == 0 ? StoredHeader(input) : kind == 1 ? FixedCodes() : kind == 2 && DynamicCodes(input);
}

bool BlockDecoder::StoredHeader(Input* input) {
  Take(num_bits_ % 8);
  const uint32_t size = Take(16), check = Take(16);
  stored_left_ = size;
  if (Overrun(*input)) return false;
  ReturnInput(input);
  return (size ^ check) == 0xffff;
}

bool BlockDecoder::FixedCodes() {
  uint8_t lengths[kLengthSymbols];
  for (int i = 0; i < kLengthSymbols; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  uint8_t distances[kDistanceSymbols];
  std::fill_n(distances, kDistanceSymbols, 5);
  return MakeTable(lengths, kLengthSymbols, kLengthMeanings.data(), kRoot, false, lengths_) &&
         MakeTable(distances, kDistanceSymbols, kDistanceMeanings.data(), kDistanceRoot, false, distances_);
}

bool BlockDecoder::DynamicCodes(Input* input) {
  const int num_lengths = static_cast<int>(Take(5)) + 257, num_distances = static_cast<int>(Take(5)) + 1;
  const int num_code_lengths = static_cast<int>(Take(4)) + 4;
  if (num_lengths > 286 || num_distances > 30) return false;
  uint8_t code_lengths[kCodeLengths] = {};
  for (int i = 0; i < num_code_lengths; ++i) {
    if (i % 16 == 0) Refill(input);
    code_lengths[kCodeLengthOrder[i]] = static_cast<uint8_t>(Take(3));
  }
  Entry table[TableSize(kLengthRoot, 0)];
  if (!MakeTable(code_lengths, kCodeLengths, kCodeLengthMeanings.data(), kLengthRoot, false, table)) return false;
  uint8_t lengths[286 + 30];
  for (int i = 0; i < num_lengths + num_distances;) {
    Refill(input);
    const Entry e = table[bits_ & kMaskOf(kLengthRoot)];
    Take(CodeBitsOf(e));
    const uint32_t symbol = ValueOf(e);
    if (symbol < 16) {
      lengths[i++] = static_cast<uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const int repeat = static_cast<int>(Take(BitsOf(e) - CodeBitsOf(e))) + (symbol == 18 ? 11 : 3);
    if (repeat > num_lengths + num_distances - i) return false;
    std::fill_n(lengths + i, repeat, symbol == 16 ? lengths[i - 1] : 0);
    i += repeat;
  }
  // A block without an end.
  if (lengths[256] == 0) return false;
  return MakeTable(lengths, num_lengths, kLengthMeanings.data(), kRoot, true, lengths_) &&
         MakeTable(lengths + num_lengths, num_distances, kDistanceMeanings.data(), kDistanceRoot, true, distances_);
}

bool BlockDecoder::Stored(Input* input, uint8_t** out, const uint8_t* out_limit) {
  const size_t n =
      std::min({stored_left_, static_cast<size_t>(input->end - input->at), static_cast<size_t>(out_limit - *out)});
  if (n > 0) std::memcpy(*out, input->at, n);
  input->at += n;
  *out += n;
  stored_left_ -= n;
  if (stored_left_ == 0) {
    part_ = last_block_ ? Part::kEnd : Part::kHeader;
    return true;
  }
  return !input->last || input->at < input->end;
}

bool BlockDecoder::Codes(Input* input, const uint8_t* base, uint8_t** out_at, const uint8_t* out_limit) {
  const uint8_t* in = input->at;
  // Of the last bytes, zeros behind them may be read; Overrun tells.
  const uint8_t* const in_limit = input->last ? input->end + 8 : input->end - kWantedInput;
  uint64_t bits = bits_;
  int num_bits = num_bits_;
  uint8_t* out = *out_at;
  const auto drop = [&bits, &num_bits](int n) {
    bits >>= n;
    num_bits -= n;
  };
  bool good = true;
  FillBits(in, bits, num_bits);
  // The next entry is loaded before more bits are, which stand above those that it needs: no load waits for another.
  Entry next = lengths_[bits & kMaskOf(kRoot)];
  while (in <= in_limit && out < out_limit) {
    FillBits(in, bits, num_bits);
    // 56 bits are three codes of up to 11 bits and the next entry's, or two and a length of up to 15 and 5.
    Entry e = next;
    if ((e & kLiteral) != 0) {
      drop(BitsOf(e));
      *out++ = static_cast<uint8_t>(ValueOf(e));
      e = lengths_[bits & kMaskOf(kRoot)];
      if ((e & kLiteral) != 0) {
        drop(BitsOf(e));
        *out++ = static_cast<uint8_t>(ValueOf(e));
        e = lengths_[bits & kMaskOf(kRoot)];
        if ((e & kLiteral) != 0) {
          drop(BitsOf(e));
          *out++ = static_cast<uint8_t>(ValueOf(e));
          next = lengths_[bits & kMaskOf(kRoot)];
          continue;
        }
      }
    }
    if ((e & (kLink | kEnd)) != 0) {
      if ((e & kNoCode) == kNoCode) {
        good = false;
        break;
      }
      if ((e & kLink) != 0) {
        drop(kRoot);
        e = lengths_[ValueOf(e) + (bits & kMaskOf(CodeBitsOf(e)))];
        if ((e & kLiteral) != 0) {
          drop(BitsOf(e));
          *out++ = static_cast<uint8_t>(ValueOf(e));
          next = lengths_[bits & kMaskOf(kRoot)];
          continue;
        }
      }
      if ((e & kEnd) != 0) {
        drop(BitsOf(e));
        part_ = last_block_ ? Part::kEnd : Part::kHeader;
        break;
      }
    }
    const uint32_t length = WithExtraBits(e, bits);
    drop(BitsOf(e));
    FillBits(in, bits, num_bits);
    e = distances_[bits & kMaskOf(kDistanceRoot)];
    if ((e & kLink) != 0) {
      if ((e & kEnd) != 0) {
        good = false;
        break;
      }
      drop(kDistanceRoot);
      e = distances_[ValueOf(e) + (bits & kMaskOf(CodeBitsOf(e)))];
    }
    const uint32_t distance = WithExtraBits(e, bits);
    drop(BitsOf(e));
    next = lengths_[bits & kMaskOf(kRoot)];
    if (distance > static_cast<size_t>(out - base)) {
      good = false;
      break;
    }
    CopyMatch(out, distance, length);
    out += length;
  }
  input->at = in;
  bits_ = bits & ((uint64_t{1} << num_bits) - 1);
  num_bits_ = num_bits;
  *out_at = out;
  // What the zeros behind the last bytes stand for.
  return good && (in <= in_limit || !input->last || part_ == Part::kEnd);
}

}  // namespace tf_booster::inflate
