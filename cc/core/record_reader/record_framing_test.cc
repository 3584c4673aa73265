#include "cc/core/record_reader/record_framing.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/record_reader/crc32c.h"

namespace tf_booster {
namespace {

template <class T>
void Append(std::string* file, T value) {
  file->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendHeader(std::string* file, uint64_t length) {
  Append(file, length);
  Append(file, MaskCrc(Crc32c(&length, sizeof(length))));
}

std::string FileOf(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) {
    AppendHeader(&file, record.size());
    file += record;
    Append(&file, MaskCrc(Crc32c(record.data(), record.size())));
  }
  return file;
}

const std::vector<std::string>& Records() {
  static const std::vector<std::string> records = {"hello", "", std::string(300, 'x'), std::string(1, '\0')};
  return records;
}

// The records of bytes that are all there, and how it ended.
std::vector<std::string> ReadAll(const std::string& file, Status* end, bool verify = true) {
  std::vector<std::string> found;
  size_t at = 0;
  while (true) {
    // A copy of its own, so that AddressSanitizer sees a read beyond the end.
    const std::vector<char> rest(file.begin() + at, file.end());
    const RecordFrame frame = NextRecord(rest.data(), rest.size(), verify);
    if (frame.kind == RecordFrame::kRecord) {
      found.emplace_back(rest.data() + frame.start, frame.size);
      at += frame.next;
    } else {
      *end = frame.kind == RecordFrame::kCorrupt ? CorruptRecord(at) : EndOfRecords(at, rest.size());
      return found;
    }
  }
}

TEST(ReadsRecords) {
  Status end;
  EXPECT_TRUE(ReadAll(FileOf(Records()), &end) == Records());
  EXPECT_OK(end);
}

// A cut in a header ends the file; a cut behind a header is a loss of data.
TEST(EveryTruncation) {
  const std::string file = FileOf(Records());
  size_t whole = 0, start = 0;
  for (size_t size = 0; size < file.size(); ++size) {
    while (start + kRecordHeader + Records()[whole].size() + kRecordFooter <= size) {
      start += kRecordHeader + Records()[whole++].size() + kRecordFooter;
    }
    Status end;
    const std::vector<std::string> found = ReadAll(file.substr(0, size), &end);
    EXPECT_EQ(found.size(), whole);
    EXPECT_TRUE(end.code() == (size - start < kRecordHeader ? StatusCode::kOk : StatusCode::kDataLoss));
  }
}

TEST(EveryFlippedBitIsSeen) {
  const std::string file = FileOf({"some bytes of a record"});
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string bad = file;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    Status end;
    EXPECT_EQ(ReadAll(bad, &end).size(), 0u);
    EXPECT_TRUE(end.code() == StatusCode::kDataLoss);
  }
}

// Without verification the bytes may be wrong, the length still may not.
TEST(VerificationCanBeSwitchedOff) {
  std::string file = FileOf({"bytes"});
  file[kRecordHeader] = 'B';
  Status end;
  EXPECT_EQ(ReadAll(file, &end, true).size(), 0u);
  EXPECT_EQ(ReadAll(file, &end, false).size(), 1u);
  EXPECT_OK(end);
  file[0] = 4;
  EXPECT_EQ(ReadAll(file, &end, false).size(), 0u);
  EXPECT_TRUE(end.code() == StatusCode::kDataLoss);
}

// A length that is consistent with its CRC and beyond the end: the caller learns how much is asked for, and decides.
TEST(HugeLengths) {
  for (const uint64_t length : {uint64_t{1} << 31, uint64_t{1} << 40, uint64_t{1} << 63}) {
    std::string file;
    AppendHeader(&file, length);
    file += "a few bytes";
    const RecordFrame frame = NextRecord(file.data(), file.size(), true);
    EXPECT_TRUE(frame.kind == RecordFrame::kNeedMore);
    EXPECT_EQ(frame.needed, length + kRecordHeader + kRecordFooter);
    EXPECT_TRUE(EndOfRecords(0, file.size()).code() == StatusCode::kDataLoss);
  }
  for (const uint64_t length : {std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max() - 15}) {
    std::string file;
    AppendHeader(&file, length);
    file += "a few bytes";
    EXPECT_TRUE(NextRecord(file.data(), file.size(), true).kind == RecordFrame::kCorrupt);
  }
}

}  // namespace
}  // namespace tf_booster
