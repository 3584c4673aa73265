#include "cc/core/base/page_committer.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "cc/core/base/huge_page_pieces.h"
#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

constexpr size_t kPage = 4096;

size_t CommittedPages(char* memory, size_t bytes) {
  std::vector<unsigned char> is_there(bytes / kPage);
  EXPECT_EQ(mincore(memory, bytes, is_there.data()), 0);
  return std::count_if(is_there.begin(), is_there.end(), [](unsigned char c) { return (c & 1) != 0; });
}

bool KernelCan() {
  char* memory = static_cast<char*>(MapHugePages(kHugePage));
  const bool can = madvise(memory, kHugePage, 23) == 0;  // MADV_POPULATE_WRITE
  munmap(memory, kHugePage);
  return can;
}

TEST(CommitsWhatIsAskedForAndChangesNothing) {
  PageCommitter committer;
  char* memory = static_cast<char*>(MapHugePages(4 * kHugePage));
  memory[kHugePage] = 7;
  EXPECT_EQ(CommittedPages(memory + 2 * kHugePage, 2 * kHugePage), 0u);
  committer.Ask(memory + kHugePage, 2 * kHugePage);
  committer.Wait();
  EXPECT_EQ(CommittedPages(memory + 2 * kHugePage, kHugePage), KernelCan() ? kHugePage / kPage : 0);
  EXPECT_EQ(CommittedPages(memory + 3 * kHugePage, kHugePage), 0u);
  EXPECT_EQ(int{memory[kHugePage]}, 7);
  EXPECT_EQ(int{memory[2 * kHugePage]}, 0);
  munmap(memory, 4 * kHugePage);
}

// What is forgotten may be unmapped at once: nobody commits what is mapped at its place next.
TEST(CommitsNothingThatIsForgotten) {
  PageCommitter committer;
  const auto work = [&committer] {
    size_t committed = 0;
    for (int i = 0; i < 20; ++i) {
      char* memory = static_cast<char*>(MapHugePages(4 * kHugePage));
      committer.Ask(memory, 4 * kHugePage);
      committer.Forget(memory, 4 * kHugePage);
      madvise(memory, 4 * kHugePage, MADV_DONTNEED);
      std::this_thread::yield();
      committed += CommittedPages(memory, 4 * kHugePage);
      munmap(memory, 4 * kHugePage);
    }
    return committed;
  };
  size_t other = 0;
  std::thread thread([&] { other = work(); });
  EXPECT_EQ(work(), 0u);
  thread.join();
  EXPECT_EQ(other, 0u);
}

// A forked process has no such thread, and does not wait for it.
TEST(AForkedProcessDoesWithout) {
  PageCommitter* committer = new PageCommitter;
  char* memory = static_cast<char*>(MapHugePages(kHugePage));
  committer->Ask(memory, kHugePage);
  committer->Wait();
  const pid_t child = fork();
  if (child == 0) {
    committer->Ask(memory, kHugePage);
    committer->Forget(memory, kHugePage);
    _exit(42);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  committer->Forget(memory, kHugePage);
  munmap(memory, kHugePage);
  delete committer;
}

}  // namespace
}  // namespace tf_booster
