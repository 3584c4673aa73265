#include "cc/core/record_reader/line_framing.h"

#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/record_reader/record_file.h"
#include "cc/core/record_reader/testing/memory_files.h"
#include "cc/core/record_reader/testing/reader.h"
#include "cc/core/record_reader/testing/text_records.h"

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

const std::string kKinds("\n\r\0a\xff\nbc", 8);  // Few, so that all pairs of them come.

TEST(FramesOfAWholeText) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(&random, kKinds, 60);
    EXPECT_TRUE(FramesOf(text, NextLine, LastLine) == LinesOf(text));
  }
}

TEST(FilesWithBlocksOfAllSizes) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    const std::string text = RandomText(&random, kKinds, 60);
    ExpectRecords(text, LinesOf(text), FileFormat::kLines, {}, &random);
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
