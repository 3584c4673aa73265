#include "cc/tf/example_parsing/batch_shares.h"

#include <atomic>

#include "cc/core/base/work_spans.h"

namespace tf_booster {
namespace {

// Another thread costs 5 us to call and comes 50 us later if it sleeps, so a share below this is not worth it.
constexpr double kShareNs = 50000;
// A share is cut into pieces, which other threads can take over. Each costs 1 us. Records and what strings point to are
// in the cache still when a piece is copied out.
constexpr double kLeastPieceNs = 25000, kMostPieceNs = 100000;
constexpr double kPiecesOfShare = 8;

}  // namespace

int64_t BatchPlan::Walk(ParallelFor& parallel_for, FunctionRef<void(Next)> walk) const {
  std::atomic<int64_t> busy_ns{0};
  WorkSpans work(pieces(), threads);
  const auto cost = static_cast<int64_t>(ns / static_cast<double>(threads));
  parallel_for.Run(static_cast<int64_t>(threads), cost, [&](int64_t first, int64_t last) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t thread = first; thread < last; ++thread) {
      WorkSpans::Walker walker(&work);
      const auto next = [&](size_t* begin, size_t* end) {
        size_t piece;
        if (!walker.Next(&piece)) return false;
        *begin = bounds[piece];
        *end = bounds[piece + 1];
        return true;
      };
      walk(next);
    }
    busy_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  });
  return busy_ns;
}

size_t BatchShares::Threads(size_t records, size_t bytes, size_t most) const {
  const double ns = static_cast<double>(bytes) * cost_.ns_per_byte();
  return std::clamp<size_t>(static_cast<size_t>(ns / kShareNs), 1, std::clamp<size_t>(records, 1, most));
}

size_t BatchShares::Pieces(double ns, size_t threads) const {
  const double piece_ns = std::clamp(ns / static_cast<double>(threads) / kPiecesOfShare, kLeastPieceNs, kMostPieceNs);
  return std::max(threads, static_cast<size_t>(ns / piece_ns));
}

}  // namespace tf_booster
