#include "cc/core/example_batch/slice_pool.h"

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

using Slices = std::vector<std::unique_ptr<SlicePool::Slice>>;

TEST(SlicesGoBackToTheirProcessor) {
  SlicePool pool;
  Slices of_one, of_two;
  pool.Take(1, &of_one, 1);
  pool.Take(2, &of_two, 2);
  const auto *const one = of_one[0].get(), *const two = of_two[1].get();
  pool.Give(std::move(of_two), 2);
  pool.Give(std::move(of_one), 1);
  Slices again;
  pool.Take(1, &again, 2);
  pool.Take(1, &again, 1);
  EXPECT_EQ(again[0].get(), two);
  EXPECT_EQ(again[1].get(), one);
}

TEST(WhereAProcessorHasNoneAnotherOnesAreTaken) {
  SlicePool pool;
  Slices slices;
  pool.Take(2, &slices, 1);
  const auto *const last = slices[1].get();
  pool.Give(std::move(slices), 1);
  Slices taken;
  pool.Take(3, &taken, 5);
  EXPECT_EQ(taken.size(), size_t{3});
  EXPECT_EQ(taken[0].get(), last);
  EXPECT_TRUE(taken[2] != nullptr && taken[2] != taken[0] && taken[2] != taken[1]);
}

}  // namespace
}  // namespace tf_booster
