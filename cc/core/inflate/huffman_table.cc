#include "cc/core/inflate/huffman_table.h"

#include <algorithm>

namespace tf_booster::inflate {
namespace {

// The stream has a code's first bit in the lowest place.
uint32_t Reversed(uint32_t code, int bits) {
  uint32_t reversed = 0;
  for (int i = 0; i < bits; ++i) reversed |= (code >> i & 1) << (bits - 1 - i);
  return reversed;
}

}  // namespace

bool MakeTable(const uint8_t* lengths, int num_symbols, const Entry* meanings, int root_bits, bool single,
               Entry* table) {
  int count[kMaxCodeBits + 1] = {};
  for (int i = 0; i < num_symbols; ++i) ++count[lengths[i]];
  int longest = kMaxCodeBits;
  while (longest > 0 && count[longest] == 0) --longest;
  if (longest == 0) return false;
  uint32_t next_code[kMaxCodeBits + 2] = {};
  int64_t left = 1;  // Codes of this length that are not taken.
  for (int bits = 1; bits <= longest; ++bits) {
    left = 2 * left - count[bits];
    if (left < 0) return false;
    next_code[bits + 1] = (next_code[bits] + count[bits]) << 1;
  }
  const size_t root_size = size_t{1} << root_bits;
  if (left > 0) {
    if (!single || longest != 1) return false;
    std::fill_n(table, root_size, kNoCode);
  }
  const int second_bits = longest - root_bits;
  // So that a link is known from what an older code left here.
  if (second_bits > 0) std::fill_n(table, root_size, Entry{0});
  size_t end = root_size;
  for (int i = 0; i < num_symbols; ++i) {
    const int bits = lengths[i];
    if (bits == 0) continue;
    const uint32_t code = Reversed(next_code[bits]++, bits);
    if (bits <= root_bits) {
      const Entry entry = meanings[i] + static_cast<Entry>(bits << 8 | bits);
      for (size_t at = code; at < root_size; at += size_t{1} << bits) table[at] = entry;
      continue;
    }
    Entry& link = table[code & (root_size - 1)];
    if (link == 0) {
      link = Meaning(static_cast<uint32_t>(end), root_bits, kLink) | static_cast<Entry>(second_bits << 8);
      end += size_t{1} << second_bits;
    }
    const int rest = bits - root_bits;
    const Entry entry = meanings[i] + static_cast<Entry>(rest << 8 | rest);
    for (size_t at = code >> root_bits; at < size_t{1} << second_bits; at += size_t{1} << rest) {
      table[ValueOf(link) + at] = entry;
    }
  }
  return true;
}

}  // namespace tf_booster::inflate
