// Random Deflate streams and the bytes that they stand for: blocks of every kind, codes of every length, distances from
// one byte to 32 KiB. Written apart from the decoder, symbol by symbol, after RFC 1951.
#ifndef TF_BOOSTER_CC_CORE_INFLATE_TESTING_RANDOM_DEFLATE_H_
#define TF_BOOSTER_CC_CORE_INFLATE_TESTING_RANDOM_DEFLATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tf_booster::inflate {

class RandomDeflate {
 public:
  explicit RandomDeflate(uint32_t seed) : random_(seed) {}

  // Adds blocks until `text` has at least so many bytes, and ends the stream.
  void Write(size_t size) {
    bool last = false;
    while (!last) {
      last = text.size() >= size;
      Put(last, 1);
      const uint32_t kind = Below(3);
      Put(kind, 2);
      if (kind == 0) {
        Stored(Below(8) == 0 ? 65535 : Below(300));
      } else {
        Coded(kind == 2, Below(8) == 0 ? 20000 : Below(400));
      }
    }
    while (num_bits_ % 8 != 0) Put(0, 1);
  }

  std::string text, stream;

 private:
  using Lengths = std::vector<int>;

  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void Put(uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i, ++num_bits_) {
      if (num_bits_ % 8 == 0) stream.push_back(0);
      stream.back() = static_cast<char>(stream.back() | (value >> i & 1) << num_bits_ % 8);
    }
  }

  void Stored(uint32_t size) {
    while (num_bits_ % 8 != 0) Put(Below(2), 1);
    Put(size, 16);
    Put(size ^ 0xffff, 16);
    for (uint32_t i = 0; i < size; ++i) {
      text.push_back(static_cast<char>(Below(256)));
      Put(static_cast<uint8_t>(text.back()), 8);
    }
  }

  // A complete code for some of `n` symbols, `needed` among them: leaves of a tree are split until there are enough.
  Lengths RandomCode(uint32_t n, uint32_t needed) {
    const uint32_t wanted = 2 + Below(n - 1);
    std::vector<int> leaves = {1, 1};
    while (leaves.size() < wanted) {
      // Deep trees, too.
      const size_t i = Below(3) == 0 ? leaves.size() - 1 : Below(static_cast<uint32_t>(leaves.size()));
      if (leaves[i] == 15) continue;
      ++leaves[i];
      leaves.push_back(leaves[i]);
    }
    std::vector<uint32_t> symbols(n);
    for (uint32_t i = 0; i < n; ++i) symbols[i] = i;
    std::shuffle(symbols.begin(), symbols.end(), random_);
    std::swap(*std::find(symbols.begin(), symbols.end(), needed), symbols[Below(wanted)]);
    Lengths lengths(n);
    for (size_t i = 0; i < leaves.size(); ++i) lengths[symbols[i]] = leaves[i];
    return lengths;
  }

  // RFC 1951, 3.2.2; a code's first bit is its highest.
  void PutSymbol(const Lengths& lengths, uint32_t symbol) {
    uint32_t code = 0;
    for (int bits = 1; bits <= lengths[symbol]; ++bits) {
      if (bits > 1) code += static_cast<uint32_t>(std::count(lengths.begin(), lengths.end(), bits - 1));
      code <<= 1;
    }
    code += static_cast<uint32_t>(std::count(lengths.begin(), lengths.begin() + symbol, lengths[symbol]));
    for (int i = lengths[symbol] - 1; i >= 0; --i) Put(code >> i & 1, 1);
  }

  void Coded(bool dynamic, int symbols) {
    Lengths lengths(288), distances(30, 5);
    for (uint32_t i = 0; i < 288; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    if (dynamic) {
      lengths = RandomCode(286, 256);
      distances = RandomCode(30, 0);
      PutCodes(lengths, distances);
    }
    std::vector<uint32_t> any, any_distance;
    for (uint32_t i = 0; i < 286; ++i) {
      if (i != 256 && lengths[i] > 0) any.push_back(i);
    }
    for (uint32_t i = 0; i < 30; ++i) {
      if (distances[i] > 0) any_distance.push_back(i);
    }
    if (!dynamic) distances.resize(32, 5);
    for (; symbols > 0 && !any.empty(); --symbols) {
      const uint32_t symbol = any[Below(static_cast<uint32_t>(any.size()))];
      if (symbol < 256) {
        PutSymbol(lengths, symbol);
        text.push_back(static_cast<char>(symbol));
      } else {
        Match(lengths, symbol, distances, any_distance[Below(static_cast<uint32_t>(any_distance.size()))]);
      }
    }
    PutSymbol(lengths, 256);
  }

  void Match(const Lengths& lengths, uint32_t symbol, const Lengths& distances, uint32_t far) {
    static const int kLength[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                  31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const int kDistance[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                    33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                    1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    const int length_bits = symbol == 285 || symbol < 261 ? 0 : static_cast<int>(symbol - 261) / 4;
    const int distance_bits = far < 2 ? 0 : static_cast<int>(far - 2) / 2;
    uint32_t more = Below(1u << length_bits);
    if (symbol == 284) more %= 31;  // 258 has a symbol of its own.
    const uint32_t further = Below(1u << distance_bits);
    const size_t distance = kDistance[far] + further;
    if (distance > text.size()) return;
    PutSymbol(lengths, symbol);
    Put(more, length_bits);
    PutSymbol(distances, far);
    Put(further, distance_bits);
    for (uint32_t i = 0; i < kLength[symbol - 257] + more; ++i) text.push_back(text[text.size() - distance]);
  }

  // Thirteen codes of 4 bits and six of 5 for the lengths' own code.
  void PutCodes(const Lengths& lengths, const Lengths& distances) {
    static const int kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    Put(286 - 257, 5);
    Put(30 - 1, 5);
    Put(19 - 4, 4);
    Lengths own(19);
    for (int i = 0; i < 19; ++i) own[i] = i < 13 ? 4 : 5;
    for (const int symbol : kOrder) Put(own[symbol], 3);
    Lengths all = lengths;
    all.insert(all.end(), distances.begin(), distances.end());
    for (size_t i = 0; i < all.size();) {
      size_t run = 1;
      while (i + run < all.size() && all[i + run] == all[i]) ++run;
      if (all[i] == 0 && run >= 3) {
        run = std::min<size_t>(run, 138);
        PutSymbol(own, run < 11 ? 17 : 18);
        run < 11 ? Put(run - 3, 3) : Put(run - 11, 7);
      } else if (i > 0 && all[i] == all[i - 1] && run >= 3) {
        run = std::min<size_t>(run, 6);
        PutSymbol(own, 16);
        Put(run - 3, 2);
      } else {
        run = 1;
        PutSymbol(own, all[i]);
      }
      i += run;
    }
  }

  std::mt19937 random_;
  size_t num_bits_ = 0;
};

}  // namespace tf_booster::inflate

#endif  // TF_BOOSTER_CC_CORE_INFLATE_TESTING_RANDOM_DEFLATE_H_
