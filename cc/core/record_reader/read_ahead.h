// Whether files are read ahead, by threads of their own, or by whoever needs a block.
#ifndef TF_BOOSTER_CC_CORE_RECORD_READER_READ_AHEAD_H_
#define TF_BOOSTER_CC_CORE_RECORD_READER_READ_AHEAD_H_

#include <atomic>
#include <cstdint>

namespace tf_booster {

// A copy out of the page cache needs a processor as parsing does, and each hand-over from thread to thread costs a
// wake-up, 50 us where threads sleep. So threads of their own read only where they bring something: there is a
// processor for them, or reads wait for a disk or a network. Three threads that parse are faster than one that reads
// between them. Files that are uncompressed are work for a thread each, ten times the work of parsing: whoever parses
// would wait for one file while another could be read. Otherwise whoever gathers a batch reads its blocks, and parses
// them while they are in his caches. Any thread may call.
class ReadAhead {
 public:
  // `processors`: that this process may use. `uncompress`: reading does, too.
  explicit ReadAhead(int processors, bool uncompress = false) : processors_(processors), uncompress_(uncompress) {}

  // So many threads parse now.
  void SetParsers(double parsers) { parsers_.store(parsers, std::memory_order_relaxed); }
  bool by_own_threads() const;

  // Around one read, on the thread that reads. One that waited speaks for the next kMemory.
  class Watch {
   public:
    explicit Watch(ReadAhead* owner) : owner_(owner), before_(Waits()) {}
    ~Watch();

   private:
    // How often this thread has given up its processor to wait; copies out of the page cache do not.
    static int64_t Waits();

    ReadAhead* const owner_;
    const int64_t before_;
  };

 private:
  static constexpr int kMemory = 64;

  const int processors_;
  const bool uncompress_;
  std::atomic<double> parsers_{1};
  std::atomic<int> slow_reads_{0};
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_RECORD_READER_READ_AHEAD_H_
