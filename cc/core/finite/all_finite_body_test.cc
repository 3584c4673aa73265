// Whether all is finite, by the card's body run by the host, and, compiled by nvcc, on a card; the CPU's beside it.
#include "cc/core/finite/all_finite_body.h"

#include <limits>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/finite/all_finite.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace {

using gpu::Array;

template <class Word>
bool OnCard(const std::vector<Words<Word>>& all, Word exponent) {
  Array<uint8_t> room(1, 7);
  static_assert(sizeof(bool) == 1);
  bool* const result = reinterpret_cast<bool*>(room.data());
#if defined(__CUDACC__)
  EXPECT_TRUE(gpu::AreAllFiniteAsync(all, exponent, result, nullptr) == nullptr);
  gpu::WaitForCard();
#else
  gpu::HostQueue queue(3);
  gpu::AreAllFiniteOn(queue, all, exponent, result);
#endif
  return *result;
}

template <class Word>
bool OnCpu(const std::vector<Words<Word>>& all, Word exponent) {
  ThreadFor pf(3);
  return AreAllFinite(all, exponent, pf);
}

// Of finite numbers of all sizes, and with each of `others` at each of some places.
template <class Word>
void Check(Word exponent, const std::vector<Word>& finite, const std::vector<Word>& others, int64_t shift,
           bool (*run)(const std::vector<Words<Word>>&, Word)) {
  const std::vector<int64_t> sizes = {1, 0, 7, 16, 33, 9001};
  std::vector<Array<Word>> arrays;
  arrays.reserve(sizes.size());
  std::vector<Words<Word>> all;
  for (const int64_t size : sizes) {
    arrays.emplace_back(size + shift + 1, others[0]);  // What lies around is not looked at.
    for (int64_t i = 0; i < size; ++i) arrays.back()[shift + i] = finite[i % finite.size()];
    all.push_back({&arrays.back()[0] + shift, size});
  }
  EXPECT_TRUE(run(all, exponent));
  EXPECT_TRUE(run({}, exponent));
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (const int64_t at : {int64_t{0}, sizes[i] / 2, sizes[i] - 1}) {
      if (at < 0 || at >= sizes[i]) continue;
      Word& place = arrays[i][shift + at];
      const Word kept = place;
      for (const Word other : others) {
        place = other;
        EXPECT_TRUE(!run(all, exponent));
      }
      place = kept;
    }
  }
}

#define CHECK_ALL(run)                                                                                                \
  for (const int64_t shift : {0, 1}) {                                                                                \
    Check<uint32_t>(0x7F800000u, {0u, 0x80000000u, 1u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x3F800000u},                        \
                    {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFFFFFFFu, 0x7F800001u}, shift, run<uint32_t>);         \
    Check<uint16_t>(0x7C00u, {0, 0x8000, 1, 0x7BFF, 0xFBFF}, {0x7C00, 0xFC00, 0x7E00, 0xFFFF}, shift, run<uint16_t>); \
    Check<uint16_t>(0x7F80u, {0, 0x8000, 1, 0x7F7F, 0x7C00}, {0x7F80, 0xFF80, 0x7FC0}, shift, run<uint16_t>);         \
    Check<uint64_t>(0x7FF0000000000000u, {0u, 1u, 0x7FEFFFFFFFFFFFFFu},                                               \
                    {0x7FF0000000000000u, 0xFFF0000000000000u, 0x7FF8000000000000u}, shift, run<uint64_t>);           \
  }

TEST(CardLooksAtAll) { CHECK_ALL(OnCard); }
TEST(CpuLooksAtAll) { CHECK_ALL(OnCpu); }

TEST(MoreThanALaunchTakes) {
  Array<uint32_t> numbers(300, 0u);
  std::vector<Words<uint32_t>> all;
  for (int i = 0; i < 300; ++i) all.push_back({&numbers[0] + i, 1});
  EXPECT_TRUE(OnCard<uint32_t>(all, 0x7F800000u));
  numbers[299] = 0x7F800000u;
  EXPECT_TRUE(!OnCard<uint32_t>(all, 0x7F800000u));
}

}  // namespace
}  // namespace tf_booster
