// A prefix code of Deflate (RFC 1951, 3.2.2) as a table: the next bits of the stream are the index, an entry says all
// that is to be done. Codes longer than the root have a second table each, behind the first.
#ifndef TF_BOOSTER_CC_CORE_INFLATE_HUFFMAN_TABLE_H_
#define TF_BOOSTER_CC_CORE_INFLATE_HUFFMAN_TABLE_H_

#include <cstddef>
#include <cstdint>

namespace tf_booster::inflate {

// bits 0-5    how many bits the code and the extra bits behind it take; of a link, the root
// bits 8-12   how many the code takes, so where the extra bits begin; of a link, how many bits index the second table
// bits 13-15  what it is; kEnd and kLink together: no code
// bits 16-31  the byte, the length or distance without its extra bits, or where the second table begins
using Entry = uint32_t;
constexpr Entry kEnd = 1u << 13, kLink = 1u << 14, kLiteral = 1u << 15, kNoCode = kEnd | kLink;

constexpr int kMaxCodeBits = 15;

// What symbol i stands for, with as many extra bits; a code's own bits are added when the table is made.
constexpr Entry Meaning(uint32_t value, int extra_bits, Entry what = 0) { return value << 16 | extra_bits | what; }

inline int BitsOf(Entry e) { return static_cast<int>(e & 63); }
inline int CodeBitsOf(Entry e) { return static_cast<int>(e >> 8 & 31); }
inline uint32_t ValueOf(Entry e) { return e >> 16; }

// Half of the symbols at most share second tables with nobody else.
constexpr size_t TableSize(int root_bits, int num_symbols) {
  return (size_t{1} << root_bits) + (static_cast<size_t>(num_symbols) / 2 << (kMaxCodeBits - root_bits));
}

// Makes the table for codes of these lengths, 0: the symbol has none. False: the lengths are no complete code. As in
// zlib, a code of one symbol, one bit long, is fine where `single` is; the other bit is no code then.
bool MakeTable(const uint8_t* lengths, int num_symbols, const Entry* meanings, int root_bits, bool single,
               Entry* table);

}  // namespace tf_booster::inflate

#endif  // TF_BOOSTER_CC_CORE_INFLATE_HUFFMAN_TABLE_H_
