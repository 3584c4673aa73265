#include "cc/core/record_reader/csv_framing.h"

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

// Character by character, with the states of TensorFlow's CsvDataset.
std::vector<std::string> RecordsOf(const std::string& text, const CsvFraming& framing) {
  std::vector<std::string> records;
  enum { kFieldStart, kUnquoted, kQuoted, kBehindQuote } state = kFieldStart;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (state == kQuoted) {
      if (c == '"') state = kBehindQuote;
    } else if (c == '\n' || c == '\r') {
      records.push_back(text.substr(begin, i - begin));
      if (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
      begin = i + 1;
      state = kFieldStart;
    } else if (c == framing.delimiter) {
      state = kFieldStart;
    } else if (state == kBehindQuote) {
      state = kQuoted;
    } else {
      state = state == kFieldStart && framing.quotes && c == '"' ? kQuoted : kUnquoted;
    }
  }
  if (begin < text.size()) records.push_back(text.substr(begin));
  return records;
}

std::string RandomText(std::mt19937* random) {
  const std::string kinds("\n\r,\"a\"b,c\0", 10);
  std::string text;
  for (size_t left = (*random)() % 40; left > 0; --left) {
    text.append((*random)() % 20 == 0 ? (*random)() % 40 : 1, kinds[(*random)() % kinds.size()]);
  }
  return text;
}

TEST(FramesOfAWholeText) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomText(&random);
    const CsvFraming framing{i % 3 == 0 ? 'c' : ',', i % 4 != 0};
    std::vector<std::string> found;
    size_t at = 0;
    while (true) {
      // A copy of its own, so that AddressSanitizer sees a read beyond the end.
      const size_t size = text.size() - at;
      const std::unique_ptr<char[]> rest(new char[size]);
      std::copy_n(text.data() + at, size, rest.get());
      RecordFrame frame = NextCsvRecord(rest.get(), size, framing);
      const bool last = frame.kind == RecordFrame::kNeedMore;
      if (last) {
        EXPECT_EQ(frame.needed, SIZE_MAX);
        frame = LastCsvRecord(rest.get(), size, framing);
      }
      if (frame.kind == RecordFrame::kRecord) found.emplace_back(rest.get() + frame.start, frame.size);
      if (last) break;
      at += frame.next;
    }
    EXPECT_TRUE(found == RecordsOf(text, framing));
  }
}

std::vector<std::string> ReadFile(const ReadOptions* options, uint64_t offset, std::vector<uint64_t>* begins) {
  std::vector<std::string> found;
  RecordFile file(options, "file", offset);
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
  for (int i = 0; i < 60; ++i) {
    const std::string text = RandomText(&random);
    const CsvFraming framing{',', i % 4 != 0};
    const std::vector<std::string> records = RecordsOf(text, framing);
    MemoryFiles files;
    files.Add("file", text);
    for (const int processors : {1, 2}) {
      for (size_t block = 1; block <= text.size() + 1; block += processors == 1 ? 1 : 7) {
        Reader reader(files, processors, 1);
        reader.options.format = FileFormat::kCsv;
        reader.options.csv = framing;
        reader.options.block_bytes = block;
        std::vector<uint64_t> begins;
        EXPECT_TRUE(ReadFile(&reader.options, 0, &begins) == records);
        const size_t from = random() % begins.size();
        EXPECT_TRUE(ReadFile(&reader.options, begins[from], nullptr) ==
                    std::vector<std::string>(records.begin() + std::min(from, records.size()), records.end()));
      }
    }
  }
}

TEST(AHeaderIsARecordAndMustBeThere) {
  MemoryFiles files;
  files.Add("file", "\"first\nname\",b\r\n1,2");
  files.Add("empty", "");
  Reader reader(files, 2, 1);
  reader.options.format = FileFormat::kCsv;
  reader.options.header_records = 1;
  EXPECT_TRUE(ReadFile(&reader.options, 0, nullptr) == std::vector<std::string>({"1,2"}));
  RecordFile empty(&reader.options, "empty", 0);
  empty.Start();
  Record record;
  bool ended = false;
  EXPECT_TRUE(empty.Next(&record, &ended).code() == StatusCode::kInvalidArgument);
  EXPECT_TRUE(!ended);
  EXPECT_OK(empty.Next(&record, &ended));
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace tf_booster
