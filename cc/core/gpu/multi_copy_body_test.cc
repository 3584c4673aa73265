#include "cc/core/gpu/multi_copy_body.h"

#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

void Copy(const std::vector<CopyJob>& jobs) {
#if defined(__CUDACC__)
  EXPECT_TRUE(MultiCopyAsync(jobs, nullptr) == nullptr);
#else
  HostQueue queue(2);
  MultiCopy(queue, jobs);
#endif
  WaitForCard();
}

std::string Text(const Array<char>& array) { return std::string(array.begin(), array.end()); }

// Arrays one behind the other, each from `shift` on in its memory, with so many bytes of room behind it as its number.
TEST(ArraysOfEverySizeAndAlignment) {
  for (const int64_t shift : {0, 1, 2, 4, 8}) {
    std::vector<Array<char>> arrays;
    std::string want(shift, 'x');
    for (int64_t i = 0; i < 200; ++i) {
      std::string array(shift, '-');
      for (int64_t b = 0; b < i * i % 300; ++b) array.push_back(static_cast<char>('a' + (i + b) % 23));
      arrays.emplace_back(array.begin(), array.end());
      want += array.substr(shift) + std::string(i % 67, '\0');
    }
    Array<char> packed(want.size() + 16, 'x');
    std::vector<CopyJob> jobs;
    int64_t at = shift;
    for (size_t i = 0; i < arrays.size(); ++i) {
      CopyJob job;
      job.from = arrays[i].data() + shift;
      job.bytes = static_cast<int64_t>(arrays[i].size()) - shift;
      job.to = packed.data() + at;
      job.room = job.bytes + static_cast<int64_t>(i) % 67;
      at += job.room;
      jobs.push_back(job);
    }
    Copy(jobs);
    EXPECT_TRUE(Text(packed) == want + std::string(16, 'x'));
  }
}

// So many words that each of a card's blocks has several chunks of them.
TEST(MoreThanAllBlocksTakeAtOnce) {
  constexpr int64_t kBytes = 1200001;
  Array<char> from(kBytes), to(kBytes + 2, 'x');
  for (int64_t i = 0; i < kBytes; ++i) from[i] = static_cast<char>(i * 31 >> 7);
  CopyJob job;
  job.from = from.data();
  job.bytes = kBytes;
  job.to = to.data() + 1;
  job.room = kBytes;
  Copy({job});
  EXPECT_TRUE(Text(to) == "x" + Text(from) + "x");
}

TEST(NothingToCopy) {
  Copy({});
  Array<char> room = {1, 2, 3, 4, 5, 6, 7, 8};
  CopyJob job;
  job.to = room.data();
  job.room = 5;
  Copy({CopyJob(), job});
  EXPECT_EQ(Text(room), std::string("\0\0\0\0\0\6\7\10", 8));
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
