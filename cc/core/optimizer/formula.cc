#include "cc/core/optimizer/formula.h"

#include <algorithm>
#include <utility>

namespace tf_booster {
namespace {

constexpr std::pair<const char*, Operation> kNames[] = {
    {"Add", Operation::kAdd},         {"AddV2", Operation::kAdd},     {"Sub", Operation::kSub},
    {"Mul", Operation::kMul},         {"RealDiv", Operation::kDiv},   {"Maximum", Operation::kMaximum},
    {"Minimum", Operation::kMinimum}, {"Neg", Operation::kNeg},       {"Abs", Operation::kAbs},
    {"Sign", Operation::kSign},       {"Square", Operation::kSquare}, {"Sqrt", Operation::kSqrt},
    {"Rsqrt", Operation::kRsqrt},
};

std::string Count(const char* what, int found, int most) {
  return "it has " + std::to_string(found) + " " + what + ", wanted up to " + std::to_string(most);
}

// Which temporary holds what each operation gives: a temporary is free again when its last reader has run.
class Temporaries {
 public:
  Temporaries(int leaves, int operations) : leaves_(leaves), last_reader_(operations, -1), place_(operations, 0) {}

  void Reads(int64_t value, int reader) {
    if (value >= leaves_) last_reader_[value - leaves_] = reader;
  }
  int Place(int64_t value) const {
    return static_cast<int>(value < leaves_ ? value : leaves_ + place_[value - leaves_]);
  }
  // The temporary for what `operation` gives, which has read `operands`: one of theirs, or one that nobody needs.
  void Give(int operation, const std::vector<int64_t>& operands) {
    for (const int64_t value : operands) {
      if (value < leaves_ || last_reader_[value - leaves_] != operation) continue;
      const int place = place_[value - leaves_];
      if (std::find(free_.begin(), free_.end(), place) == free_.end()) free_.push_back(place);
    }
    if (free_.empty()) free_.push_back(size_++);
    place_[operation] = free_.back();
    free_.pop_back();
    if (last_reader_[operation] < 0) free_.push_back(place_[operation]);  // Nobody reads it.
  }
  int size() const { return size_; }

 private:
  const int leaves_;
  std::vector<int> last_reader_, place_, free_;
  int size_ = 0;
};

}  // namespace

std::string MakeFormula(int arrays, int tensors, int numbers, const std::vector<std::string>& operations,
                        const std::vector<int64_t>& operands, const std::vector<int64_t>& results, Formula* formula) {
  const int size = static_cast<int>(operations.size()), leaves = arrays + tensors + numbers;
  if (arrays < 1 || arrays > kMostFormulaArrays) return Count("arrays", arrays, kMostFormulaArrays);
  if (tensors > kMostFormulaTensors) return Count("tensors", tensors, kMostFormulaTensors);
  if (numbers > kMostFormulaNumbers) return Count("numbers", numbers, kMostFormulaNumbers);
  if (size < 1 || size > kMostFormulaSteps) return Count("operations", size, kMostFormulaSteps);
  if (static_cast<int>(results.size()) != arrays) {
    return "it has " + std::to_string(results.size()) + " results, wanted one for each of " + std::to_string(arrays) +
           " arrays";
  }
  *formula = {arrays, tensors, numbers, 0, size, {}, {}};
  std::vector<std::vector<int64_t>> of_step(size);
  size_t next = 0;
  for (int i = 0; i < size; ++i) {
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const auto& entry) { return operations[i] == entry.first; });
    if (name == std::end(kNames)) return "operation '" + operations[i] + "' is unknown";
    formula->steps[i].operation = name->second;
    const size_t count = name->second < kFirstUnary ? 2 : 1;
    if (next + count > operands.size()) return "it has too few operands: " + std::to_string(operands.size());
    for (; of_step[i].size() < count; ++next) {
      if (operands[next] < 0 || operands[next] >= leaves + i) {
        return "operand " + std::to_string(operands[next]) + " of operation " + std::to_string(i) + " is none of the " +
               std::to_string(leaves + i) + " before it";
      }
      of_step[i].push_back(operands[next]);
    }
  }
  if (next != operands.size()) return "it has too many operands: " + std::to_string(operands.size());
  Temporaries temporaries(leaves, size);
  for (int i = 0; i < size; ++i) {
    for (const int64_t value : of_step[i]) temporaries.Reads(value, i);
  }
  for (int k = 0; k < arrays; ++k) {
    const bool of_operation = results[k] >= leaves && results[k] < leaves + size;
    if (!of_operation && results[k] != k) {
      return "result " + std::to_string(results[k]) + " of array " + std::to_string(k) +
             " is neither what an operation gives nor the array itself";
    }
    temporaries.Reads(results[k], size);
  }
  for (int i = 0; i < size; ++i) {
    FormulaStep& step = formula->steps[i];
    step.a = static_cast<uint8_t>(temporaries.Place(of_step[i].front()));
    step.b = static_cast<uint8_t>(temporaries.Place(of_step[i].back()));
    temporaries.Give(i, of_step[i]);
    step.to = static_cast<uint8_t>(temporaries.Place(leaves + i));
  }
  for (int k = 0; k < arrays; ++k) formula->results[k] = static_cast<uint8_t>(temporaries.Place(results[k]));
  formula->temporaries = temporaries.size();
  return "";
}

}  // namespace tf_booster
