// Numbered pieces of work for several threads, where neighbours are best done by one thread one after another: each
// thread has a span of its own and goes through it in order. Who is done takes a span that nobody began, or else the
// latter half of what is left of the longest one. So a thread that comes late, or never, costs nobody anything.
#ifndef TF_BOOSTER_CC_CORE_BASE_WORK_SPANS_H_
#define TF_BOOSTER_CC_CORE_BASE_WORK_SPANS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tf_booster {

class WorkSpans {
 private:
  // begin << 32 | end of what is left.
  struct alignas(64) Span {
    std::atomic<uint64_t> range{0};
  };

 public:
  // Pieces [0, pieces) in `spans` spans; at most 2^32 - 1 pieces.
  WorkSpans(size_t pieces, size_t spans) : pieces_(pieces), spans_(std::max<size_t>(1, spans)) {}

  // One thread's way through the pieces. Each thread makes one.
  class Walker {
   public:
    explicit Walker(WorkSpans* work) : work_(work) {}

    // The next piece; false: none is left. Each is given to one walker only.
    bool Next(size_t* piece) {
      while (true) {
        if (mine_ != nullptr && Take(&mine_->range, piece)) return true;
        if (!work_->Begin(&mine_) && !work_->Steal(&mine_)) return false;
      }
    }

   private:
    WorkSpans* const work_;
    Span* mine_ = nullptr;
  };

 private:
  static uint64_t Range(uint64_t begin, uint64_t end) { return begin << 32 | end; }
  static uint64_t BeginOf(uint64_t range) { return range >> 32; }
  static uint64_t EndOf(uint64_t range) { return range & 0xffffffff; }

  static bool Take(std::atomic<uint64_t>* from, size_t* piece) {
    uint64_t range = from->load(std::memory_order_relaxed);
    while (BeginOf(range) < EndOf(range)) {
      const uint64_t rest = Range(BeginOf(range) + 1, EndOf(range));
      if (!from->compare_exchange_weak(range, rest, std::memory_order_relaxed)) continue;
      *piece = BeginOf(range);
      return true;
    }
    return false;
  }

  // A span that nobody began.
  bool Begin(Span** mine) {
    const size_t s = begun_.fetch_add(1, std::memory_order_relaxed);
    if (s >= spans_.size()) return false;
    spans_[s].range.store(Range(pieces_ * s / spans_.size(), pieces_ * (s + 1) / spans_.size()),
                          std::memory_order_relaxed);
    *mine = &spans_[s];
    return true;
  }

  // The latter half of the longest, to be the thief's own.
  bool Steal(Span** mine) {
    if (*mine == nullptr) return false;  // There are more threads than spans.
    while (true) {
      Span* victim = nullptr;
      uint64_t most = 0, range = 0;
      for (Span& span : spans_) {
        const uint64_t found = span.range.load(std::memory_order_relaxed), left = EndOf(found) - BeginOf(found);
        if (BeginOf(found) >= EndOf(found) || left <= most) continue;
        most = left;
        victim = &span;
        range = found;
      }
      if (victim == nullptr) return false;
      const uint64_t middle = BeginOf(range) + most / 2;
      if (!victim->range.compare_exchange_strong(range, Range(BeginOf(range), middle), std::memory_order_relaxed)) {
        continue;
      }
      (*mine)->range.store(Range(middle, middle + (most + 1) / 2), std::memory_order_relaxed);
      return true;
    }
  }

  const size_t pieces_;
  std::vector<Span> spans_;
  std::atomic<size_t> begun_{0};
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_WORK_SPANS_H_
