// Records of texts, lines or comma-separated values, as their framing and as a RecordFile finds them.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_TEXT_RECORDS_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_TEXT_RECORDS_H_

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

// Up to `most` times one of the bytes `kinds`, some of them several times in a row.
inline std::string RandomText(std::mt19937* random, const std::string& kinds, size_t most) {
  std::string text;
  for (size_t left = (*random)() % most; left > 0; --left) {
    text.append((*random)() % 20 == 0 ? (*random)() % 40 : 1, kinds[(*random)() % kinds.size()]);
  }
  return text;
}

// What `next` finds from the start of `text` on, and `last` behind that.
template <class Next, class Last>
std::vector<std::string> FramesOf(const std::string& text, const Next& next, const Last& last) {
  std::vector<std::string> found;
  for (size_t at = 0;;) {
    // A copy of its own, so that AddressSanitizer sees a read beyond the end.
    const size_t size = text.size() - at;
    const std::unique_ptr<char[]> rest(new char[size]);
    std::copy_n(text.data() + at, size, rest.get());
    RecordFrame frame = next(rest.get(), size);
    const bool ends = frame.kind == RecordFrame::kNeedMore;
    if (ends) {
      EXPECT_EQ(frame.needed, SIZE_MAX);
      frame = last(rest.get(), size);
    }
    if (frame.kind == RecordFrame::kRecord) found.emplace_back(rest.get() + frame.start, frame.size);
    if (ends) return found;
    at += frame.next;
  }
}

// Reads from byte `offset` on; notes where each record begins.
inline std::vector<std::string> ReadFile(const ReadOptions* options, const std::string& name, uint64_t offset,
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

// Whether a file of `text` has `records`, from the start and from the beginning of any of them, in blocks of all sizes.
// With two processors a thread of its own reads ahead.
inline void ExpectRecords(const std::string& text, const std::vector<std::string>& records, FileFormat format,
                          const CsvFraming& csv, std::mt19937* random) {
  MemoryFiles files;
  files.Add("file", text);
  for (const int processors : {1, 2}) {
    for (size_t block = 1; block <= text.size() + 1; block += processors == 1 ? 1 : 7) {
      Reader reader(files, processors, 1);
      reader.options.format = format;
      reader.options.csv = csv;
      reader.options.block_bytes = block;
      std::vector<uint64_t> begins;
      EXPECT_TRUE(ReadFile(&reader.options, "file", 0, &begins) == records);
      const size_t from = (*random)() % begins.size();
      EXPECT_TRUE(ReadFile(&reader.options, "file", begins[from], nullptr) ==
                  std::vector<std::string>(records.begin() + std::min(from, records.size()), records.end()));
    }
  }
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_TESTING_TEXT_RECORDS_H_
