#include "cc/core/optimizer/formula.h"

#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

using Names = std::vector<std::string>;
using Values = std::vector<int64_t>;

std::string Wrong(int arrays, int tensors, int numbers, const Names& operations, const Values& operands,
                  const Values& results) {
  Formula formula;
  return MakeFormula(arrays, tensors, numbers, operations, operands, results, &formula);
}

TEST(WhatIsWrongIsNamed) {
  EXPECT_EQ(Wrong(1, 1, 0, {"Sub"}, {0, 1}, {2}), "");
  EXPECT_EQ(Wrong(1, 1, 0, {"Tanh"}, {0, 1}, {2}), "operation 'Tanh' is unknown");
  EXPECT_EQ(Wrong(1, 1, 0, {"Sub"}, {0, 2}, {2}), "operand 2 of operation 0 is none of the 2 before it");
  EXPECT_EQ(Wrong(1, 1, 0, {"Sub"}, {0, -1}, {2}), "operand -1 of operation 0 is none of the 2 before it");
  EXPECT_EQ(Wrong(1, 1, 0, {"Sub"}, {0}, {2}), "it has too few operands: 1");
  EXPECT_EQ(Wrong(1, 1, 0, {"Neg"}, {0, 1}, {2}), "it has too many operands: 2");
  EXPECT_EQ(Wrong(1, 1, 0, {"Sub"}, {0, 1}, {}), "it has 0 results, wanted one for each of 1 arrays");
  EXPECT_EQ(Wrong(1, 1, 0, {"Sub"}, {0, 1}, {3}),
            "result 3 of array 0 is neither what an operation gives nor the array itself");
  EXPECT_EQ(Wrong(2, 1, 0, {"Sub"}, {0, 1}, {3, 0}),
            "result 0 of array 1 is neither what an operation gives nor the array itself");
  EXPECT_EQ(Wrong(0, 1, 0, {"Neg"}, {0}, {}), "it has 0 arrays, wanted up to 6");
  EXPECT_EQ(Wrong(7, 0, 0, {"Neg"}, {0}, {}), "it has 7 arrays, wanted up to 6");
  EXPECT_EQ(Wrong(1, 7, 0, {"Neg"}, {0}, {8}), "it has 7 tensors, wanted up to 6");
  EXPECT_EQ(Wrong(1, 0, 25, {"Neg"}, {0}, {26}), "it has 25 numbers, wanted up to 24");
  EXPECT_EQ(Wrong(1, 0, 0, {}, {}, {0}), "it has 0 operations, wanted up to 32");
  EXPECT_EQ(Wrong(1, 0, 0, Names(33, "Neg"), Values(33, 0), {1}), "it has 33 operations, wanted up to 32");
}

TEST(TemporariesAreUsedAgain) {
  Names operations;
  Values operands;
  for (int i = 0; i < kMostFormulaSteps; ++i) {
    operations.push_back("Neg");
    operands.push_back(i);
  }
  Formula formula;
  EXPECT_EQ(MakeFormula(1, 0, 0, operations, operands, {kMostFormulaSteps}, &formula), "");
  EXPECT_EQ(formula.temporaries, 1);
}

// Formulas of random operations, by their places and by the values themselves.
TEST(AnyFormulaGivesWhatItsOperationsDo) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 3000; ++round) {
    const int arrays = 1 + static_cast<int>(below(kMostFormulaArrays)), tensors = static_cast<int>(below(4)),
              numbers = static_cast<int>(below(4)), size = 1 + static_cast<int>(below(kMostFormulaSteps));
    const int leaves = arrays + tensors + numbers;
    std::vector<uint64_t> values;
    for (int i = 0; i < leaves; ++i) values.push_back(random());
    const std::vector<uint64_t> before = values;
    Names operations;
    Values operands, results;
    for (int i = 0; i < size; ++i) {
      const int64_t a = below(leaves + i), b = below(leaves + i);
      const bool binary = below(2) == 0;
      operations.push_back(binary ? "Sub" : "Neg");
      operands.push_back(a);
      if (binary) operands.push_back(b);
      values.push_back(binary ? values[a] * 3 - values[b] : ~values[a] * 5);
    }
    for (int k = 0; k < arrays; ++k) results.push_back(below(3) == 0 ? k : leaves + below(size));
    Formula formula;
    EXPECT_EQ(MakeFormula(arrays, tensors, numbers, operations, operands, results, &formula), "");
    EXPECT_TRUE(formula.temporaries <= size);
    std::vector<uint64_t> places = before;
    places.resize(leaves + formula.temporaries);
    for (int s = 0; s < formula.size; ++s) {
      const FormulaStep& step = formula.steps[s];
      EXPECT_TRUE(step.to >= leaves && step.to < places.size());
      places[step.to] = step.operation == Operation::kSub ? places[step.a] * 3 - places[step.b] : ~places[step.a] * 5;
    }
    for (int k = 0; k < arrays; ++k) EXPECT_EQ(places[formula.results[k]], values[results[k]]);
  }
}

}  // namespace
}  // namespace tf_booster
