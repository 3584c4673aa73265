// The records of one file, TFRecords, lines or comma-separated values, read ahead where that pays (see ReadAhead);
// whoever finds none ready while nobody reads, reads himself.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_FILE_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_FILE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "cc/core/record_reader/byte_source.h"
#include "cc/core/record_reader/csv_framing.h"
#include "cc/core/record_reader/read_ahead.h"
#include "cc/core/record_reader/record.h"
#include "cc/core/record_reader/record_block.h"
#include "cc/core/record_reader/record_framing.h"

namespace tf_booster {

// What the bytes of a file are: records in TFRecord's framing, lines of text, or records of comma-separated values,
// which may have more lines than one.
enum class FileFormat { kTFRecord, kLines, kCsv };

// What all files of an iterator have in common.
struct ReadOptions {
  OpenByteSource open;
  FileFormat format = FileFormat::kTFRecord;
  bool verify_crc = true;  // Of TFRecords.
  CsvFraming csv;          // Of kCsv.
  size_t block_bytes = 1 << 20;
  size_t blocks_ahead = 4;  // Of each file, at most.
  size_t files_ahead = 1;   // Opened before their turn.
  std::shared_ptr<BlockPool> blocks;
  std::function<void(std::function<void()>)> schedule;  // Runs a function soon, on a thread of its own: to read.
  ReadAhead* ahead = nullptr;                           // Whether those read, or who else.
  const std::atomic<bool>* cancelled = nullptr;         // Ends waits.
  const std::atomic<int64_t>* wanted = nullptr;         // Records that the batch at hand still wants, if known.
  int64_t header_records = 0;  // At the start of each file, left out. One of kCsv must be there.
  int64_t files_in_turns = 1;  // Those come from so many.
  std::string op;              // Begins the messages of errors.
};

class RecordFile {
 public:
  // `offset`: of the first record wanted, in the file without compression.
  RecordFile(const ReadOptions* options, std::string name, uint64_t offset);
  // Waits for a read in flight.
  ~RecordFile();

  // Starts reading, if that has not happened yet.
  void Start();

  // The next record. It lies in the file's present block: `record->block` is valid until the next call. `*end`: there
  // is none. Errors are what TensorFlow's TFRecordDataset, or TextLineDataset, answers: a file that cannot be opened
  // fails at each call, for each call tries again; any other error ends a file of records, and is given again and again
  // for one of lines or comma-separated values.
  Status Next(Record* record, bool* end);

  // Whether Next has ended: it said so, or gave the error that ends the file.
  bool ended() const { return ended_; }
  // Stands for a file that has ended, before its first Next and instead of Start.
  void End() { ended_ = true; }

  const std::string& name() const { return name_; }
  // Where the record begins that Next will return.
  uint64_t offset() const { return offset_; }

 private:
  Status InFile(const Status& status) const;
  bool MayLoad() const;  // These two need mutex_.
  void ScheduleLoad();
  void LoadAhead();                                    // Reads blocks until enough lie ready.
  void LoadBlock(std::unique_lock<std::mutex>* lock);  // Holds it, but not while it reads.
  Status Fill(RecordBlock* block);                     // An error: the file could not be opened.
  RecordFrame NextFrame(char* data, size_t available) const;
  // What stands behind the last whole record of a file that has ended: nothing, a last line or an error.
  Status AddLast(RecordBlock* block, size_t at, size_t used);
  void Add(RecordBlock* block, const RecordFrame& frame, size_t* at);
  size_t BlockBytes() const;
  Status WaitForBlock();

  const ReadOptions* const options_;
  const std::string name_;
  uint64_t offset_;

  // For Next.
  std::shared_ptr<RecordBlock> block_;
  size_t next_record_ = 0;
  int64_t header_records_;  // Still to be left out.
  bool ended_ = false;

  // For the one load at a time.
  std::unique_ptr<ByteSource> source_;
  std::shared_ptr<RecordBlock> previous_;  // Its last bytes are the beginning of the next block.
  size_t rest_start_ = 0, rest_size_ = 0;
  uint64_t load_offset_;     // Of the rest in the file.
  size_t record_bytes_ = 0;  // Mean of the last ones, with their frames.

  std::mutex mutex_;
  std::condition_variable changed_;
  bool scheduled_ = false;  // LoadAhead is to come, or runs.
  bool loading_ = false;    // A thread reads: the only one that does.
  bool stop_ = false;       // No load comes after the present one.
  bool no_more_ = false;    // The last block is loaded.
  Status open_error_;
  std::deque<std::shared_ptr<RecordBlock>> ready_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_RECORD_FILE_H_
