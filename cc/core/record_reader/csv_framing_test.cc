#include "cc/core/record_reader/csv_framing.h"

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

const std::string kKinds("\n\r,\"a\"b,c\0", 10);

TEST(FramesOfAWholeText) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomText(&random, kKinds, 40);
    const CsvFraming framing{i % 3 == 0 ? 'c' : ',', i % 4 != 0};
    const auto next = [&](const char* data, size_t available) { return NextCsvRecord(data, available, framing); };
    const auto last = [&](const char* data, size_t available) { return LastCsvRecord(data, available, framing); };
    EXPECT_TRUE(FramesOf(text, next, last) == RecordsOf(text, framing));
  }
}

TEST(FilesWithBlocksOfAllSizes) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    const std::string text = RandomText(&random, kKinds, 40);
    const CsvFraming framing{',', i % 4 != 0};
    ExpectRecords(text, RecordsOf(text, framing), FileFormat::kCsv, framing, &random);
  }
}

TEST(AHeaderIsARecordAndMustBeThere) {
  MemoryFiles files;
  files.Add("file", "\"first\nname\",b\r\n1,2");
  files.Add("empty", "");
  Reader reader(files, 2, 1);
  reader.options.format = FileFormat::kCsv;
  reader.options.header_records = 1;
  EXPECT_TRUE(ReadFile(&reader.options, "file", 0, nullptr) == std::vector<std::string>({"1,2"}));
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
