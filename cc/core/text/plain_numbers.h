// Decimal numbers as most files write them, read to the bits that any correct reader gives. What is written in another
// way (spaces, exponents, many digits) is left to a slower one.
#ifndef TF_BOOSTER_CC_CORE_TEXT_PLAIN_NUMBERS_H_
#define TF_BOOSTER_CC_CORE_TEXT_PLAIN_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace tf_booster {

// Digits, with a '-' before them perhaps, that fit T, int32_t or int64_t. False: something else, which may be a number
// still.
template <class T>
bool ReadPlain(std::string_view text, T* value) {
  const bool negative = !text.empty() && text[0] == '-';
  const size_t begin = negative ? 1 : 0, digits = text.size() - begin;
  if (digits == 0 || digits > 18) return false;
  int64_t found = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const unsigned digit = static_cast<unsigned char>(text[i]) - '0';
    if (digit > 9) return false;
    found = 10 * found + digit;
  }
  found = negative ? -found : found;
  if (found < std::numeric_limits<T>::min() || found > std::numeric_limits<T>::max()) return false;
  *value = static_cast<T>(found);
  return true;
}

namespace plain_numbers {

// Powers of ten that a double holds exactly.
constexpr double kTens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// A decimal is one integer over a power of ten; where a double holds both exactly, their quotient is rounded once.
struct Decimal {
  uint64_t digits = 0;
  size_t behind_point = 0;
  bool negative = false;

  // Digits, with a point between them perhaps and a '-' before them.
  bool Read(std::string_view text) {
    negative = !text.empty() && text[0] == '-';
    const size_t begin = negative ? 1 : 0;
    if (text.size() <= begin || text.size() - begin > 19) return false;
    size_t point = text.size();
    for (size_t i = begin; i < text.size(); ++i) {
      const unsigned digit = static_cast<unsigned char>(text[i]) - '0';
      if (digit <= 9) {
        digits = 10 * digits + digit;
      } else if (text[i] == '.' && point == text.size() && i > begin && i + 1 < text.size()) {
        point = i;
      } else {
        return false;
      }
    }
    behind_point = point == text.size() ? 0 : text.size() - point - 1;
    return digits <= uint64_t{1} << 53;  // 19 characters have at most 18 digits behind a point.
  }

  double Value() const {
    const double value = static_cast<double>(digits) / kTens[behind_point];
    return negative ? -value : value;
  }
};

}  // namespace plain_numbers

template <>
inline bool ReadPlain(std::string_view text, double* value) {
  plain_numbers::Decimal decimal;
  if (!decimal.Read(text)) return false;
  *value = decimal.Value();
  return true;
}

// The double is rounded once more. That gives another float only where the double fell onto the middle between two
// floats, its lower 29 bits, while the decimal stands beside it.
template <>
inline bool ReadPlain(std::string_view text, float* value) {
  double found;
  if (!ReadPlain(text, &found)) return false;
  uint64_t bits;
  std::memcpy(&bits, &found, sizeof(bits));
  if ((bits & ((uint64_t{1} << 29) - 1)) == uint64_t{1} << 28) return false;
  *value = static_cast<float>(found);
  return true;
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_TEXT_PLAIN_NUMBERS_H_
