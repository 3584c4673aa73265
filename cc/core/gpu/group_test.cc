// A group's copies, every length and word, on the host and, under nvcc, on a card, where lanes share the words.
#include "cc/core/gpu/group.h"

#include <cstdint>
#include <numeric>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/launch.h"

#if defined(__CUDACC__)
#include "cc/core/gpu/cuda_queue.cuh"
#endif

namespace tf_booster {
namespace gpu {
namespace {

// Unit: a row of n words among rows of `stride`; a group.
template <class Word>
struct CopyRow {
  const Word* from;
  Word* to;
  int64_t n, stride;
  TFB_HOST_DEVICE void operator()(int64_t row) const {
    const Group group;
    group.Copy(n, from + row * stride, to + row * stride);
  }
};

// Unit: four rows, each found by a lane; every fifth is none.
template <class Word>
struct CopyFourRows {
  const Word* from;
  Word* to;
  int64_t n;
  TFB_HOST_DEVICE void operator()(int64_t unit) const {
    const Group group;
    const auto rows = group.ByEach([&](int lane) -> uint64_t {
      const int64_t row = unit * kGroupLanes + lane;
      return row % 5 == 4 ? 0 : reinterpret_cast<uintptr_t>(from + (row * 7 % 64) * n);
    });
    group.CopyRows(n, rows, to + unit * kGroupLanes * n);
  }
};

template <class Body>
void RunGroups(int64_t units, const Body& body) {
#if defined(__CUDACC__)
  CudaQueue queue(nullptr);
#else
  HostQueue queue(2);
#endif
  ForEach<kGroupLanes>(queue, units, body);
  WaitForCard();
}

template <class Word>
void CheckRows() {
  constexpr int64_t kRows = 64, kMost = 40;
  Array<Word> from(kRows * kMost), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    for (int e = 0; e < Word::kSize; ++e) from[i].at[e] = static_cast<uint32_t>(i * Word::kSize + e + 1);
  }
  for (int64_t n = 0; n <= kMost; ++n) {
    for (Word& word : to) word = Word();
    RunGroups(kRows / kGroupLanes, CopyFourRows<Word>{from.data(), to.data(), n});
    bool same = true;
    for (int64_t i = 0; i < kRows * n; ++i) {
      const int64_t row = i / n, source = (row * 7 % 64) * n + i % n;
      for (int e = 0; e < Word::kSize; ++e) same &= to[i].at[e] == (row % 5 == 4 ? 0 : from[source].at[e]);
    }
    EXPECT_TRUE(same);
  }
}

template <class Word>
void CheckCopy() {
  constexpr int64_t kRows = 70, kMost = 40;
  Array<Word> from(kRows * (kMost + 1)), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    for (int e = 0; e < Word::kSize; ++e) from[i].at[e] = static_cast<uint32_t>(i * Word::kSize + e + 1);
  }
  for (int64_t n = 0; n <= kMost; ++n) {
    for (Word& word : to) word = Word();
    RunGroups(kRows, CopyRow<Word>{from.data(), to.data(), n, kMost + 1});
    bool same = true;
    for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i) {
      for (int e = 0; e < Word::kSize; ++e) same &= to[i].at[e] == (i % (kMost + 1) < n ? from[i].at[e] : 0);
    }
    EXPECT_TRUE(same);
  }
}

TEST(WordsOfEverySizeAreCopied) {
  CheckCopy<Pack<uint32_t, 1>>();
  CheckCopy<Pack<uint32_t, 2>>();
  CheckCopy<Pack<uint32_t, 4>>();
}

TEST(RowsThatLanesFoundAreCopied) {
  CheckRows<Pack<uint32_t, 1>>();
  CheckRows<Pack<uint32_t, 2>>();
  CheckRows<Pack<uint32_t, 4>>();
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
