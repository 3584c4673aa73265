// Pages of a file where memory would be.
#include "cc/core/base/page_file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

const size_t kPage = PageFile::PageBytes();

TEST(KeepsWhatIsWritten) {
  std::string why;
  const auto file = PageFile::New("/tmp", &why);
  EXPECT_TRUE(file != nullptr);
  EXPECT_EQ(file->bytes(), 0);
  const int64_t offset = static_cast<int64_t>(16 * kPage);  // Nothing below it takes room.
  char* const memory = static_cast<char*>(file->Map(nullptr, 8 * kPage, offset));
  EXPECT_TRUE(memory != nullptr);
  EXPECT_TRUE(file->HaveUntil(offset + static_cast<int64_t>(8 * kPage)));
  EXPECT_TRUE(file->bytes() >= static_cast<int64_t>(8 * kPage));
  for (size_t i = 0; i < 8 * kPage; ++i) EXPECT_EQ(memory[i], 0);
  memory[0] = 1;
  memory[8 * kPage - 1] = 2;
  file->ReadAhead(offset, static_cast<int64_t>(8 * kPage));
  // The same pages once more, and over other memory.
  void* const other = mmap(nullptr, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const again = static_cast<char*>(file->Map(other, 2 * kPage, offset + static_cast<int64_t>(6 * kPage)));
  EXPECT_TRUE(again == other);
  EXPECT_EQ(int{again[2 * kPage - 1]}, 2);
  munmap(memory, 8 * kPage);
  munmap(again, 2 * kPage);
}

// Without a mapping: what is written is read, and what never was is zeros.
TEST(ReadsAndWritesByPlace) {
  std::string why;
  const auto file = PageFile::New("/tmp", &why);
  const int64_t begin = int64_t{1} << 33;  // Nothing below it takes room.
  file->BeginAt(begin);
  EXPECT_TRUE(file->HaveUntil(begin + 100000));
  EXPECT_TRUE(file->bytes() >= 100000 && file->bytes() <= int64_t{64} << 20);
  std::vector<char> written(30000), read(40000, 'x');
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<char>(i * 7);
  EXPECT_TRUE(file->Write(begin + 5001, 30000, written.data()));
  std::vector<int64_t> offsets = {begin + 90000, begin + 5001, begin, begin + 5100, begin + 30000};
  file->ReadAhead(offsets.data(), 5, 200);
  EXPECT_TRUE(file->Read(begin, 40000, read.data()));
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(int{read[i]}, i < 5001 || i >= 35001 ? 0 : int{written[i - 5001]});
  }
  EXPECT_FALSE(file->ReadNow(begin + (int64_t{1} << 30), 1, read.data()));  // Behind its end.
  std::fill(read.begin(), read.end(), 'x');
  if (file->ReadNow(begin + 5001, 100, read.data())) {
    EXPECT_TRUE(std::equal(read.begin(), read.begin() + 100, written.begin()));
  }
  EXPECT_TRUE(file->Write(begin + 35000, 1, "z") && file->Read(begin + 34999, 2, read.data()));
  EXPECT_TRUE(read[0] == written[29998] && read[1] == 'z');
  EXPECT_FALSE(file->Read(begin + (int64_t{1} << 30), 1, read.data()));  // Behind its end.
}

TEST(LeavesNoFile) {
  char name[] = "/tmp/page_file_test_XXXXXX";
  const std::string folder = mkdtemp(name);
  {
    std::string why;
    const auto file = PageFile::New(folder, &why);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    EXPECT_TRUE(file->Map(nullptr, kPage, 0) != nullptr && file->HaveUntil(1));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(SaysWhyThereIsNoFile) {
  std::string why;
  EXPECT_TRUE(PageFile::New("/nonexistent", &why) == nullptr);
  EXPECT_TRUE(why.find("'/nonexistent'") != std::string::npos && why.find("No such file") != std::string::npos);
}

// A file that may not grow stands for a full disk.
TEST(KnowsThatTheDiskIsFull) {
  std::string why;
  const auto file = PageFile::New("/tmp", &why);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const int64_t most = static_cast<int64_t>(20 * kPage);
  const rlimit limit = {static_cast<rlim_t>(most), before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_TRUE(file->Map(nullptr, 100 * kPage, 0) != nullptr);
  EXPECT_TRUE(file->HaveUntil(most - 1));  // To the last page.
  EXPECT_TRUE(file->HaveUntil(most));
  EXPECT_FALSE(file->HaveUntil(most + 1));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(file->HaveUntil(most + 1));
  signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace tf_booster
