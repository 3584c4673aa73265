#include "cc/ptx_machine/costs.h"

#include <cstddef>
#include <set>

namespace tf_booster::ptx {
namespace {

constexpr bool InOrder() {
  for (size_t i = 0; i < kCosts.size(); ++i) {
    if (kCosts[i].kind != static_cast<Kind>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "kCosts has a row for each Kind, in their order");

bool Has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

Kind KindOfConversion(const std::string& name, bool wide) {
  const bool floats = Has(name, ".f32") || Has(name, ".f64");
  if (floats) return wide ? Kind::kSpecial : Kind::kInteger;
  // Halves are taken, or filled with zeros; only a sign takes an instruction.
  return wide && !Has(name, "s64.s") ? Kind::kFree : Kind::kInteger;
}

}  // namespace

Kind KindOf(const std::string& name) {
  static const std::set<std::string> special = {"popc", "clz", "brev", "bfind", "ex2", "lg2", "sin", "cos", "rsqrt"};
  const std::string operation = name.substr(0, name.find('.'));
  const std::string type = name.substr(name.rfind('.') + 1);
  const bool wide = Has(name, "64");
  if (operation == "ld") return Has(name, ".param") ? Kind::kFree : Kind::kLoad;
  if (operation == "st") return Has(name, ".param") ? Kind::kFree : Kind::kStore;
  if (operation == "atom" || operation == "red") return Kind::kAtomic;
  if (operation == "mov" || operation == "cvta") return Kind::kFree;
  if (operation == "cvt") return KindOfConversion(name, wide);
  if (operation == "bra" || operation == "call" || operation == "ret" || operation == "exit" || operation == "trap")
    return Kind::kBranch;
  if (operation == "shfl") return Kind::kShuffle;
  if (operation == "vote" || operation == "activemask" || name == "bar.warp.sync") return Kind::kVote;
  if (operation == "match") return Kind::kMatch;
  if (operation == "bar" || operation == "barrier" || operation == "nanosleep") return Kind::kBarrier;
  if (operation == "membar" || operation == "fence") return Kind::kFence;
  if (special.count(operation) != 0) return wide ? Kind::kSpecial64 : Kind::kSpecial;
  if (operation == "div" || operation == "rem" || operation == "sqrt" || operation == "rcp") {
    if (Has(name, "approx")) return Kind::kSpecial;
    if (type == "f32") return Kind::kDivideFloat;
    if (type == "f64") return Kind::kDivideDouble;
    return wide ? Kind::kDivide64 : Kind::kDivide32;
  }
  if (type == "f64") return Kind::kDouble;
  // Comparisons of floats are made where integers' are.
  if (type == "f32" && operation != "setp" && operation != "selp" && operation != "min" && operation != "max")
    return Kind::kFloat;
  if (wide && (operation == "mul" || operation == "mad")) {
    return Has(name, ".hi.") ? Kind::kMultiplyHigh64 : Kind::kMultiply64;
  }
  return wide ? Kind::kInteger64 : Kind::kInteger;
}

}  // namespace tf_booster::ptx
