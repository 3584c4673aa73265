#include "cc/core/record_reader/line_framing.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/record_reader/record_file.h"
#include "cc/core/record_reader/testing/memory_files.h"
#include "cc/core/record_reader/testing/reader.h"

namespace tf_booster {
namespace {

// Byte by byte, as TensorFlow's BufferedInputStream::ReadLine does it.
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      lines.push_back(line);
      line.clear();
    } else if (c != '\r') {
      line += c;
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

// A text of some lines, of few kinds of bytes, so that all pairs of them come.
std::string RandomText(std::mt19937* random) {
  const std::string kinds("\n\r\0a\xff\nbc", 8);
  std::string text;
  for (size_t left = (*random)() % 60; left > 0; --left) {
    text.append((*random)() % 20 == 0 ? (*random)() % 40 : 1, kinds[(*random)() % kinds.size()]);
  }
  return text;
}

TEST(FramesOfAWholeText) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(&random);
    std::vector<std::string> found;
    size_t at = 0;
    while (true) {
      // A copy of its own, so that AddressSanitizer sees a read beyond the end.
      const size_t size = text.size() - at;
      const std::unique_ptr<char[]> rest(new char[size]);
      std::copy_n(text.data() + at, size, rest.get());
      RecordFrame frame = NextLine(rest.get(), size);
      const bool last = frame.kind == RecordFrame::kNeedMore;
      if (last) {
        EXPECT_EQ(frame.needed, SIZE_MAX);
        frame = LastLine(rest.get(), size);
      }
      if (frame.kind == RecordFrame::kRecord) found.emplace_back(rest.get() + frame.start, frame.size);
      if (last) break;
      at += frame.next;
    }
    EXPECT_TRUE(found == LinesOf(text));
  }
}

// Reads from byte `offset` on; notes where each line begins.
std::vector<std::string> ReadFile(const ReadOptions* options, const std::string& name, uint64_t offset,
                                  std::vector<uint64_t>* begins) {
  std::vector<std::string> found;
  RecordFile file(options, name, offset);
  file.Start();
  while (true) {
    Record record;
    bool ended = false;
    if (begins != nullptr) begins->push_back(file.offset());
    EXPECT_OK(file.Next(&record, &ended));
    if (ended) return found;
    found.emplace_back(record.data, record.size);
  }
}

// With two processors a thread of its own reads ahead.
TEST(FilesWithBlocksOfAllSizes) {
  std::mt19937 random(2);
  for (int i = 0; i < (60); ++i) {
    const std::string text = RandomText(&random);
    const std::vector<std::string> lines = LinesOf(text);
    MemoryFiles files;
    files.Add("file", text);
    for (const int processors : {1, 2}) {
      for (size_t block = 1; block <= text.size() + 1; block += processors == 1 ? 1 : 7) {
        Reader reader(files, processors, 1);
        reader.options.format = FileFormat::kLines;
        reader.options.block_bytes = block;
        std::vector<uint64_t> begins;
        EXPECT_TRUE(ReadFile(&reader.options, "file", 0, &begins) == lines);
        const size_t from = random() % begins.size();
        EXPECT_TRUE(ReadFile(&reader.options, "file", begins[from], nullptr) ==
                    std::vector<std::string>(lines.begin() + std::min(from, lines.size()), lines.end()));
      }
    }
  }
}

TEST(LinesLongerThanBlocks) {
  const std::string longest(1 << 20, 'x');
  MemoryFiles files;
  files.Add("file", "a\n" + longest + "\r\n\n" + longest);
  Reader reader(files, 2, 1);
  reader.options.format = FileFormat::kLines;
  EXPECT_TRUE(ReadFile(&reader.options, "file", 0, nullptr) == std::vector<std::string>({"a", longest, "", longest}));
}

// Lines before it are good, what there is of the next one is lost.
TEST(AnErrorStays) {
  MemoryFiles files;
  files.Add("fails", "a\nbc\ndefg", 8);
  for (const int processors : {1, 2}) {
    Reader reader(files, processors, 1);
    reader.options.format = FileFormat::kLines;
    for (const char* name : {"fails", "missing"}) {
      RecordFile file(&reader.options, name, 0);
      file.Start();
      Record record;
      bool ended = false;
      for (const char* line : {"a", "bc"}) {
        if (std::string(name) == "missing") break;
        EXPECT_OK(file.Next(&record, &ended));
        EXPECT_TRUE(std::string(record.data, record.size) == line);
      }
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(file.Next(&record, &ended).code() ==
                    (std::string(name) == "missing" ? StatusCode::kNotFound : StatusCode::kInternal));
        EXPECT_TRUE(!ended && !file.ended());
      }
    }
  }
}

}  // namespace
}  // namespace tf_booster
