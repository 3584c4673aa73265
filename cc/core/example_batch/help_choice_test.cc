#include "cc/core/example_batch/help_choice.h"

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

constexpr size_t kBytes = 1000;

// Of `batches`, how many are helped where a batch takes so long with help and without.
int Helped(HelpChoice* choice, int batches, int64_t with_ns, int64_t without_ns) {
  int helped = 0;
  for (int b = 0; b < batches; ++b) {
    const bool help = choice->Next();
    helped += help;
    choice->Add(help, help ? with_ns : without_ns, kBytes);
  }
  return helped;
}

TEST(HelpIsAskedForWhereItPays) {
  HelpChoice choice;
  EXPECT_TRUE(Helped(&choice, 1000, 500, 1000) >= 985);
}

TEST(HelpThatCostsIsNotAskedFor) {
  HelpChoice choice;
  const int first = Helped(&choice, 8, 1500, 1000);
  EXPECT_EQ(first, 8);  // Known of neither way.
  EXPECT_TRUE(Helped(&choice, 1000, 1500, 1000) <= 25);
}

TEST(HelpThatBringsNothingIsLeftToOthers) {
  HelpChoice choice;
  EXPECT_TRUE(Helped(&choice, 1000, 1000, 1000) <= 60);
}

TEST(TheChoiceFollowsTheMachine) {
  HelpChoice choice;
  for (int64_t with : {500, 2000, 500}) {
    Helped(&choice, 3000, with, 1000);
    const int helped = Helped(&choice, 1000, with, 1000);
    EXPECT_TRUE(with < 1000 ? helped >= 980 : helped <= 20);
  }
}

TEST(TheFirstBatchesAndOneThatMetOtherWorkDoNotDecide) {
  HelpChoice choice;
  Helped(&choice, 4, 100000, 100000);  // No memory yet.
  Helped(&choice, 100, 500, 1000);
  choice.Add(true, 1000000, kBytes);
  EXPECT_TRUE(Helped(&choice, 100, 500, 1000) >= 98);
}

TEST(BatchesInErrorAreNotMeasured) {
  HelpChoice choice;
  for (int b = 0; b < 100; ++b) EXPECT_TRUE(choice.Next());
  choice.Add(true, 500, kBytes);
  EXPECT_TRUE(!choice.Next());
}

}  // namespace
}  // namespace tf_booster
