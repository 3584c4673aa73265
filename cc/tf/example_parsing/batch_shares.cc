#include "cc/tf/example_parsing/batch_shares.h"

#include <algorithm>

namespace tf_booster {
namespace {

// Another thread costs 5 us to call and comes 50 us later if it sleeps, so a share below this is not worth it.
constexpr double kShareNs = 50000;
// A share is cut into pieces, which other threads can take over. Each costs 1 us. Records and what strings point to are
// in the cache still when a piece is copied out.
constexpr double kLeastPieceNs = 25000, kMostPieceNs = 100000;
constexpr double kPiecesOfShare = 8;

}  // namespace

size_t BatchShares::Threads(size_t records, size_t bytes, size_t most) const {
  const double ns = static_cast<double>(bytes) * cost_.ns_per_byte();
  return std::clamp<size_t>(static_cast<size_t>(ns / kShareNs), 1, std::clamp<size_t>(records, 1, most));
}

size_t BatchShares::Pieces(double ns, size_t threads) const {
  const double piece_ns = std::clamp(ns / static_cast<double>(threads) / kPiecesOfShare, kLeastPieceNs, kMostPieceNs);
  return std::max(threads, static_cast<size_t>(ns / piece_ns));
}

}  // namespace tf_booster
