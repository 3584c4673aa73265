#include "cc/core/text/plain_numbers.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

template <class T>
bool Reads(const std::string& text, T expected) {
  T value = 77;
  return ReadPlain(std::string_view(text), &value) && std::memcmp(&value, &expected, sizeof(T)) == 0;
}

template <class T>
bool Leaves(const std::string& text) {
  T value;
  return !ReadPlain(std::string_view(text), &value);
}

TEST(ReadsIntegers) {
  EXPECT_TRUE(Reads<int32_t>("0", 0) && Reads<int32_t>("-0", 0) && Reads<int32_t>("-00012", -12));
  EXPECT_TRUE(Reads<int32_t>("2147483647", 2147483647) && Reads<int32_t>("-2147483648", -2147483647 - 1));
  EXPECT_TRUE(Leaves<int32_t>("2147483648") && Leaves<int32_t>("-2147483649"));
  EXPECT_TRUE(Reads<int64_t>("999999999999999999", 999999999999999999));
  EXPECT_TRUE(Reads<int64_t>("-999999999999999999", -999999999999999999));
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "1-", "9223372036854775807"}) {
    EXPECT_TRUE(Leaves<int64_t>(text));
  }
}

TEST(ReadsDecimals) {
  EXPECT_TRUE(Reads<float>("1.5", 1.5f) && Reads<double>("-0.25", -0.25) && Reads<float>("-0", -0.0f));
  EXPECT_TRUE(Reads<double>("9007199254740992", 9007199254740992.0));
  for (const char* text : {"", "-", ".", "1.", ".5", "-.5", "1..2", "1.2.3", "1e3", "nan", "inf", " 1", "1 ", "+1",
                           "9007199254740993", "12345678901234567890"}) {
    EXPECT_TRUE(Leaves<float>(text) && Leaves<double>(text));
  }
}

// The middle between two floats, and a double next to it, where a second rounding goes the wrong way.
TEST(LeavesWhatTwoRoundingsMayGetWrong) {
  EXPECT_TRUE(Leaves<float>("16777217"));
  EXPECT_TRUE(Leaves<float>("16777219"));
  EXPECT_TRUE(Reads<float>("16777218", 16777218.0f));
  EXPECT_TRUE(Reads<double>("16777217", 16777217.0));
}

TEST(RandomDecimalsAreRoundedOnce) {
  std::mt19937_64 random(3);
  int read = 0;
  for (int i = 0; i < 300000; ++i) {
    std::string text = std::to_string(random() >> (random() % 60 + 4));
    if (random() % 8 > 0) {
      // The digits of a float, or of the middle between two, and some more.
      const float value = std::ldexp(1.0f + (random() >> 41) * 0x1p-23f, static_cast<int>(random() % 30) - 5);
      const double middle = (static_cast<double>(value) + std::nextafter(value, 1e30f)) / 2;
      char digits[64];
      std::snprintf(digits, sizeof(digits), "%.*f", static_cast<int>(random() % 14), random() % 2 ? middle : value);
      text = digits;
    }
    if (random() % 4 == 0) text.insert(0, "-");
    float single;
    double twice;
    if (ReadPlain(std::string_view(text), &single)) {
      EXPECT_TRUE(single == std::strtof(text.c_str(), nullptr));
      ++read;
    }
    if (ReadPlain(std::string_view(text), &twice)) EXPECT_TRUE(twice == std::strtod(text.c_str(), nullptr));
  }
  EXPECT_TRUE(read > 150000);
}

}  // namespace
}  // namespace tf_booster
