#include "cc/core/gpu/multi_copy_body.h"

#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"

namespace tf_booster {
namespace gpu {
namespace {

// Arrays one behind the other, each from `shift` on in its memory, with so many bytes of room behind it as its number.
TEST(ArraysOfEverySizeAndAlignment) {
  for (const int64_t shift : {0, 1, 2, 4, 8}) {
    std::vector<std::string> arrays;
    std::string want(shift, 'x');
    for (int64_t i = 0; i < 200; ++i) {
      std::string array(shift, '-');
      for (int64_t b = 0; b < i * i % 300; ++b) array.push_back(static_cast<char>('a' + (i + b) % 23));
      arrays.push_back(array);
      want += array.substr(shift) + std::string(i % 67, '\0');
    }
    std::string packed(want.size() + 16, 'x');
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
    HostQueue queue(2);
    MultiCopy(queue, jobs);
    EXPECT_TRUE(packed == want + std::string(16, 'x'));
  }
}

TEST(NothingToCopy) {
  HostQueue queue;
  MultiCopy(queue, {});
  char room[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  CopyJob job;
  job.to = room;
  job.room = 5;
  MultiCopy(queue, {CopyJob(), job});
  EXPECT_EQ(std::string(room, 8), std::string("\0\0\0\0\0\6\7\10", 8));
}

}  // namespace
}  // namespace gpu
}  // namespace tf_booster
