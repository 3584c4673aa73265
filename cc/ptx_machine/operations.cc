// What instructions compute whose operands are registers: each name with its types, as the PTX manual has it.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "cc/ptx_machine/registers.h"

namespace tf_booster::ptx {
namespace {

using Table = std::unordered_map<std::string, Instruction::Run>;

// What a card answers where the result of an operation is no number: one NaN, whatever came in.
template <class T>
T Canonical(T value) {
  if constexpr (std::is_same_v<T, float>) {
    if (std::isnan(value)) return FromBits<float>(0x7fffffffu);
  }
  return value;
}

template <class T, class Operation>
void Unary(const Instruction& i, Thread& t) {
  Set<T>(t, i.to[0], Operation()(Get<T>(t, i.from[0])));
}
template <class T, class Operation>
void Binary(const Instruction& i, Thread& t) {
  Set<T>(t, i.to[0], Operation()(Get<T>(t, i.from[0]), Get<T>(t, i.from[1])));
}
template <class T, class Operation>
void Ternary(const Instruction& i, Thread& t) {
  Set<T>(t, i.to[0], Operation()(Get<T>(t, i.from[0]), Get<T>(t, i.from[1]), Get<T>(t, i.from[2])));
}
template <class T, class Operation>
void Compare(const Instruction& i, Thread& t) {
  Set<bool>(t, i.to[0], Operation()(Get<T>(t, i.from[0]), Get<T>(t, i.from[1])));
}
// Whose second operand is a number of bits.
template <class T, class Operation>
void Shift(const Instruction& i, Thread& t) {
  Set<T>(t, i.to[0], Operation()(Get<T>(t, i.from[0]), Get<uint32_t>(t, i.from[1])));
}
template <class To, class From, class Operation>
void Convert(const Instruction& i, Thread& t) {
  Set<To>(t, i.to[0], Operation()(Get<From>(t, i.from[0])));
}

template <class T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// Integers wrap around.
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    return Canonical(static_cast<T>(a + b));
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    return Canonical(static_cast<T>(a - b));
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    return Canonical(static_cast<T>(a * b));
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(Multiply()(a, b), c);
  }
};
struct FusedMultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Canonical(std::fma(a, b, c));
  }
};
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) throw Fault("division of an integer by 0");
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Subtract()(T{0}, a);
      return static_cast<T>(a / b);
    }
    return Canonical(static_cast<T>(a / b));
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) throw Fault("division of an integer by 0");
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
  }
};
// Of a number and a NaN: the number; 0 is more than -0.
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return Canonical(std::isnan(a) ? b : a);
      if (a == b) return std::signbit(a) ? a : b;
    }
    return std::min(a, b);
  }
};
struct Greatest {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return Canonical(std::isnan(a) ? b : a);
      if (a == b) return std::signbit(a) ? b : a;
    }
    return std::max(a, b);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) return Subtract()(T{0}, a);
    return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) return a < 0 ? Negate()(a) : a;
    return std::fabs(a);
  }
};
struct SquareRoot {
  template <class T>
  T operator()(T a) const {
    return Canonical(std::sqrt(a));
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return Canonical(T{1} / a);
  }
};
// Within 1 ulp, so any of these is right; subnormal numbers are 0.
struct RoughReciprocal {
  float operator()(float a) const {
    const auto flushed = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
    return Canonical(flushed(1.0f / flushed(a)));
  }
  double operator()(double a) const {  // The upper half of its bits.
    if (std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0, a);
    return FromBits<double>(ToBits(1.0 / a) & ~uint64_t{0xffffffff});
  }
};

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};
struct Same {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};
// More bits than there are shift all of them out.
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t n) const {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << n);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t n) const {
    if (n >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> n);
  }
};

template <class T>
int CountOnes(T a) {
  return __builtin_popcountll(static_cast<std::make_unsigned_t<T>>(a));
}
template <class T>
int CountLeadingZeros(T a) {
  return a == 0 ? static_cast<int>(8 * sizeof(T)) : __builtin_clzll(a) - (64 - static_cast<int>(8 * sizeof(T)));
}
struct Ones {
  template <class T>
  uint32_t operator()(T a) const {
    return CountOnes(a);
  }
};
struct LeadingZeros {
  template <class T>
  uint32_t operator()(T a) const {
    return CountLeadingZeros(a);
  }
};
// How far the highest bit is from the top; all ones if there is none.
struct ShiftToTop {
  template <class T>
  uint32_t operator()(T a) const {
    return a == 0 ? ~0u : CountLeadingZeros(a);
  }
};
struct HighestBit {
  template <class T>
  uint32_t operator()(T a) const {
    return a == 0 ? ~0u : static_cast<uint32_t>(8 * sizeof(T) - 1) - CountLeadingZeros(a);
  }
};
struct Reverse {
  template <class T>
  T operator()(T a) const {
    T reversed = 0;
    for (size_t bit = 0; bit < 8 * sizeof(T); ++bit) reversed = static_cast<T>(reversed << 1 | (a >> bit & 1));
    return reversed;
  }
};

template <class T>
void InsertBits(const Instruction& i, Thread& t) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T a = Get<T>(t, i.from[0]), b = Get<T>(t, i.from[1]);
  const uint32_t at = Get<uint32_t>(t, i.from[2]) & 0xff, n = Get<uint32_t>(t, i.from[3]) & 0xff;
  T result = b;
  for (uint32_t bit = 0; bit < n && at + bit < kBits; ++bit) {
    const T one = static_cast<T>(T{1} << (at + bit));
    result = (a >> bit & 1) != 0 ? result | one : result & ~one;
  }
  Set<T>(t, i.to[0], result);
}
template <class T>
void ExtractBits(const Instruction& i, Thread& t) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T a = Get<T>(t, i.from[0]);
  const uint32_t at = Get<uint32_t>(t, i.from[1]) & 0xff, n = Get<uint32_t>(t, i.from[2]) & 0xff;
  const bool sign =
      std::is_signed_v<T> && n > 0 && (static_cast<uint64_t>(a) >> std::min(at + n - 1, kBits - 1) & 1) != 0;
  uint64_t result = 0;
  for (uint32_t bit = 0; bit < kBits; ++bit) {
    const bool set = bit < n && at + bit < kBits ? (static_cast<uint64_t>(a) >> (at + bit) & 1) != 0 : sign;
    result |= uint64_t{set} << bit;
  }
  Set<T>(t, i.to[0], static_cast<T>(result));
}
// Ones in so many bits from one on, of those that there are.
void MaskOfBits(const Instruction& i, Thread& t) {
  const uint64_t at = std::min(Get<uint32_t>(t, i.from[0]), 32u), n = std::min(Get<uint32_t>(t, i.from[1]), 32u);
  Set<uint32_t>(t, i.to[0], static_cast<uint32_t>(((uint64_t{1} << n) - 1) << at));
}
// Two words as one of 64 bits, of which the upper or the lower half is wanted; n wraps around or is clamped.
template <bool kLeft, bool kWrap>
void FunnelShift(const Instruction& i, Thread& t) {
  const uint64_t both = uint64_t{Get<uint32_t>(t, i.from[1])} << 32 | Get<uint32_t>(t, i.from[0]);
  uint32_t n = Get<uint32_t>(t, i.from[2]);
  n = kWrap ? n & 31 : std::min(n, 32u);
  Set<uint32_t>(t, i.to[0], static_cast<uint32_t>(kLeft ? both << n >> 32 : both >> n));
}
// Four of the eight bytes of two words; a selector's highest bit asks for the sign of its byte.
void Permute(const Instruction& i, Thread& t) {
  const uint64_t bytes = uint64_t{Get<uint32_t>(t, i.from[1])} << 32 | Get<uint32_t>(t, i.from[0]);
  const uint32_t selectors = Get<uint32_t>(t, i.from[2]);
  uint32_t result = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const uint32_t selector = selectors >> (4 * byte) & 15;
    uint32_t value = bytes >> (8 * (selector & 7)) & 0xff;
    if (selector >= 8) value = (value & 0x80) != 0 ? 0xff : 0;
    result |= value << (8 * byte);
  }
  Set<uint32_t>(t, i.to[0], result);
}
// The table of a function of three bits, as a number.
void ThreeBits(const Instruction& i, Thread& t) {
  const uint32_t a = Get<uint32_t>(t, i.from[0]), b = Get<uint32_t>(t, i.from[1]), c = Get<uint32_t>(t, i.from[2]);
  const uint32_t table = static_cast<uint32_t>(i.offset);
  uint32_t result = 0;
  for (int bit = 0; bit < 32; ++bit) {
    const uint32_t row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
    result |= (table >> row & 1) << bit;
  }
  Set<uint32_t>(t, i.to[0], result);
}

template <class T>
void MultiplyWide(const Instruction& i, Thread& t) {
  using To = Wide<T>;
  Set<To>(t, i.to[0], static_cast<To>(static_cast<To>(Get<T>(t, i.from[0])) * static_cast<To>(Get<T>(t, i.from[1]))));
}
template <class T>
void MultiplyWideAdd(const Instruction& i, Thread& t) {
  using To = Wide<T>;
  const To product = static_cast<To>(static_cast<To>(Get<T>(t, i.from[0])) * static_cast<To>(Get<T>(t, i.from[1])));
  Set<To>(t, i.to[0], Add()(product, Get<To>(t, i.from[2])));
}
template <class T>
void Select(const Instruction& i, Thread& t) {
  Set<T>(t, i.to[0], Get<T>(t, i.from[Get<bool>(t, i.from[2]) ? 0 : 1]));
}

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Unordered {
  template <class T>
  bool operator()(T a, T b) const {
    return std::isnan(a) || std::isnan(b);
  }
};
struct Ordered {
  template <class T>
  bool operator()(T a, T b) const {
    return !std::isnan(a) && !std::isnan(b);
  }
};
template <class Comparison>
struct Swapped {
  template <class T>
  bool operator()(T a, T b) const {
    return Comparison()(b, a);
  }
};
// Two numbers that differ: false for NaN.
struct Differ {
  template <class T>
  bool operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return Ordered()(a, b) && a != b;
    return a != b;
  }
};
template <class Comparison>
struct OrUnordered {
  template <class T>
  bool operator()(T a, T b) const {
    return Unordered()(a, b) || Comparison()(a, b);
  }
};

enum class Rounding { kNearest, kToZero, kDown, kUp };
template <Rounding kRounding>
struct RoundToInteger {
  template <class T>
  T operator()(T a) const {
    switch (kRounding) {
      case Rounding::kNearest:
        return std::nearbyint(a);
      case Rounding::kToZero:
        return std::trunc(a);
      case Rounding::kDown:
        return std::floor(a);
      case Rounding::kUp:
        return std::ceil(a);
    }
  }
};
// What does not fit is the nearest that does; NaN is 0.
template <class To, Rounding kRounding>
struct ToInteger {
  template <class From>
  To operator()(From a) const {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(a)) return 0;
    const From whole = RoundToInteger<kRounding>()(a);
    if (whole < static_cast<From>(Limits::min())) return Limits::min();
    if (whole >= std::ldexp(From{1}, Limits::digits)) return Limits::max();
    return static_cast<To>(whole);
  }
};
template <class To>
struct Cast {
  template <class From>
  To operator()(From a) const {
    return static_cast<To>(a);
  }
};

template <class T>
struct Name;
#define PTX_TYPE(type, text)                   \
  template <>                                  \
  struct Name<type> {                          \
    static constexpr const char* kText = text; \
  };
PTX_TYPE(uint8_t, "u8")
PTX_TYPE(int8_t, "s8")
PTX_TYPE(uint16_t, "u16")
PTX_TYPE(int16_t, "s16")
PTX_TYPE(uint32_t, "u32")
PTX_TYPE(int32_t, "s32")
PTX_TYPE(uint64_t, "u64")
PTX_TYPE(int64_t, "s64")
PTX_TYPE(float, "f32")
PTX_TYPE(double, "f64")
#undef PTX_TYPE

template <class T>
void AddComparisons(Table& table, const std::string& type) {
  const auto name = [&](const char* comparison) { return std::string("setp.") + comparison + "." + type; };
  table[name("eq")] = Compare<T, Equal>;
  table[name("ne")] = Compare<T, Differ>;
  table[name("lt")] = Compare<T, Less>;
  table[name("le")] = Compare<T, LessOrEqual>;
  table[name("gt")] = Compare<T, Swapped<Less>>;
  table[name("ge")] = Compare<T, Swapped<LessOrEqual>>;
  if constexpr (std::is_floating_point_v<T>) {
    table[name("equ")] = Compare<T, OrUnordered<Equal>>;
    table[name("neu")] = Compare<T, OrUnordered<Differ>>;
    table[name("ltu")] = Compare<T, OrUnordered<Less>>;
    table[name("leu")] = Compare<T, OrUnordered<LessOrEqual>>;
    table[name("gtu")] = Compare<T, OrUnordered<Swapped<Less>>>;
    table[name("geu")] = Compare<T, OrUnordered<Swapped<LessOrEqual>>>;
    table[name("num")] = Compare<T, Ordered>;
    table[name("nan")] = Compare<T, Unordered>;
  } else if constexpr (std::is_unsigned_v<T>) {
    table[name("lo")] = Compare<T, Less>;
    table[name("ls")] = Compare<T, LessOrEqual>;
    table[name("hi")] = Compare<T, Swapped<Less>>;
    table[name("hs")] = Compare<T, Swapped<LessOrEqual>>;
  }
}

template <class T>
void AddIntegers(Table& table) {
  const std::string type = Name<T>::kText;
  for (const char* way : {"add.", "add.wrap."}) table[way + type] = Binary<T, Add>;
  table["sub." + type] = Binary<T, Subtract>;
  table["mul.lo." + type] = Binary<T, Multiply>;
  table["mad.lo." + type] = Ternary<T, MultiplyAdd>;
  table["mul.hi." + type] = Binary<T, MultiplyHigh>;
  if constexpr (sizeof(T) < 8) {
    table["mul.wide." + type] = MultiplyWide<T>;
    table["mad.wide." + type] = MultiplyWideAdd<T>;
  }
  table["div." + type] = Binary<T, Divide>;
  table["rem." + type] = Binary<T, Remainder>;
  table["min." + type] = Binary<T, Least>;
  table["max." + type] = Binary<T, Greatest>;
  if constexpr (std::is_signed_v<T>) {
    table["neg." + type] = Unary<T, Negate>;
    table["abs." + type] = Unary<T, Absolute>;
  }
  table["shr." + type] = Shift<T, ShiftRight>;
  table["mov." + type] = Unary<T, Same>;
  table["selp." + type] = Select<T>;
  if constexpr (sizeof(T) >= 4) {
    using Bits = std::make_unsigned_t<T>;
    table["bfe." + type] = ExtractBits<T>;
    if constexpr (std::is_unsigned_v<T>) {
      table["bfind." + type] = Convert<uint32_t, Bits, HighestBit>;
      table["bfind.shiftamt." + type] = Convert<uint32_t, Bits, ShiftToTop>;
    }
  }
  AddComparisons<T>(table, type);
}

// Of which no sign matters.
template <class T>
void AddBits(Table& table) {
  const std::string type = "b" + std::to_string(8 * sizeof(T));
  table["and." + type] = Binary<T, And>;
  table["or." + type] = Binary<T, Or>;
  table["xor." + type] = Binary<T, Xor>;
  table["not." + type] = Unary<T, Not>;
  table["shl." + type] = Shift<T, ShiftLeft>;
  table["shr." + type] = Shift<T, ShiftRight>;
  table["mov." + type] = Unary<T, Same>;
  table["selp." + type] = Select<T>;
  table["setp.eq." + type] = Compare<T, Equal>;
  table["setp.ne." + type] = Compare<T, Differ>;
  if constexpr (sizeof(T) >= 4) {
    table["popc." + type] = Convert<uint32_t, T, Ones>;
    table["clz." + type] = Convert<uint32_t, T, LeadingZeros>;
    table["brev." + type] = Unary<T, Reverse>;
    table["bfi." + type] = InsertBits<T>;
  }
  if constexpr (sizeof(T) == 4) table["bmsk.clamp." + type] = MaskOfBits;
}

template <class T>
void AddFloats(Table& table) {
  const std::string type = Name<T>::kText;
  for (const std::string rounding : {"", "rn."}) {
    table["add." + rounding + type] = Binary<T, Add>;
    table["sub." + rounding + type] = Binary<T, Subtract>;
    table["mul." + rounding + type] = Binary<T, Multiply>;
  }
  table["fma.rn." + type] = Ternary<T, FusedMultiplyAdd>;
  table["div.rn." + type] = Binary<T, Divide>;
  table["sqrt.rn." + type] = Unary<T, SquareRoot>;
  table["rcp.rn." + type] = Unary<T, Reciprocal>;
  table["rcp.approx.ftz." + type] = Unary<T, RoughReciprocal>;
  table["min." + type] = Binary<T, Least>;
  table["max." + type] = Binary<T, Greatest>;
  table["neg." + type] = Unary<T, Negate>;
  table["abs." + type] = Unary<T, Absolute>;
  table["mov." + type] = Unary<T, Same>;
  table["selp." + type] = Select<T>;
  AddComparisons<T>(table, type);
  for (const auto& [rounding, run] :
       {std::pair<const char*, Instruction::Run>{"rni.", Unary<T, RoundToInteger<Rounding::kNearest>>},
        {"rzi.", Unary<T, RoundToInteger<Rounding::kToZero>>},
        {"rmi.", Unary<T, RoundToInteger<Rounding::kDown>>},
        {"rpi.", Unary<T, RoundToInteger<Rounding::kUp>>}}) {
    table["cvt." + std::string(rounding) + type + "." + type] = run;
  }
}

template <class Float, class Integer>
void AddFloatConversions(Table& table) {
  const std::string floats = Name<Float>::kText, integers = Name<Integer>::kText;
  table["cvt.rn." + floats + "." + integers] = Convert<Float, Integer, Cast<Float>>;
  const std::string end = integers + "." + floats;
  table["cvt.rni." + end] = Convert<Integer, Float, ToInteger<Integer, Rounding::kNearest>>;
  table["cvt.rzi." + end] = Convert<Integer, Float, ToInteger<Integer, Rounding::kToZero>>;
  table["cvt.rmi." + end] = Convert<Integer, Float, ToInteger<Integer, Rounding::kDown>>;
  table["cvt.rpi." + end] = Convert<Integer, Float, ToInteger<Integer, Rounding::kUp>>;
}

template <class To, class... From>
void AddIntegerConversions(Table& table) {
  ((table[std::string("cvt.") + Name<To>::kText + "." + Name<From>::kText] = Convert<To, From, Cast<To>>), ...);
}

template <class... Integers>
void AddConversions(Table& table) {
  (AddIntegerConversions<Integers, Integers...>(table), ...);
  (AddFloatConversions<float, Integers>(table), ...);
  (AddFloatConversions<double, Integers>(table), ...);
  table["cvt.f64.f32"] = Convert<double, float, Cast<double>>;
  table["cvt.rn.f32.f64"] = Convert<float, double, Cast<float>>;
}

Table MakeTable() {
  Table table;
  AddIntegers<uint16_t>(table);
  AddIntegers<int16_t>(table);
  AddIntegers<uint32_t>(table);
  AddIntegers<int32_t>(table);
  AddIntegers<uint64_t>(table);
  AddIntegers<int64_t>(table);
  AddBits<uint16_t>(table);
  AddBits<uint32_t>(table);
  AddBits<uint64_t>(table);
  AddFloats<float>(table);
  AddFloats<double>(table);
  AddConversions<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(table);
  table["and.pred"] = Binary<bool, And>;
  table["or.pred"] = Binary<bool, Or>;
  table["xor.pred"] = Binary<bool, Xor>;
  table["not.pred"] = Unary<bool, Not>;
  table["mov.pred"] = Unary<bool, Same>;
  table["shf.l.wrap.b32"] = FunnelShift<true, true>;
  table["shf.l.clamp.b32"] = FunnelShift<true, false>;
  table["shf.r.wrap.b32"] = FunnelShift<false, true>;
  table["shf.r.clamp.b32"] = FunnelShift<false, false>;
  table["prmt.b32"] = Permute;
  table["lop3.b32"] = ThreeBits;
  return table;
}

}  // namespace

Instruction::Run FindOperation(const std::string& name) {
  static const Table table = MakeTable();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tf_booster::ptx
