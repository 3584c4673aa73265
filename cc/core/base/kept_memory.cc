#include "cc/core/base/kept_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace tf_booster {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSpread = 16 << 10;  // From here on blocks are spread over the places of a page.
constexpr size_t kLeastBytes = 512;

int LogOf(size_t bytes) { return 63 - __builtin_clzll(bytes); }

}  // namespace

KeptMemory::~KeptMemory() {
  for (const auto& bin : free_) {
    for (const Block& block : bin) Free(block);
  }
}

size_t KeptMemory::BinOf(size_t bytes) {
  const int log = LogOf(bytes);
  return 8 * log + (bytes >> (log - 3) & 7);
}

void KeptMemory::Free(const Block& block) { std::free(block.data - block.before); }

void KeptMemory::StartBatch(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  batches_ = std::max(2 * bytes, batches_ - batches_ / 16);
  most_used_ = std::max(used_, most_used_ - most_used_ / 64);
  if (kept_ > Limit()) Trim();
}

size_t KeptMemory::Limit() const { return std::min(kMostKept, std::max(batches_, most_used_ - used_)); }

void KeptMemory::Trim() {
  for (size_t bin = kBins; bin-- > 0;) {
    while (kept_ > Limit() && !free_[bin].empty()) {
      kept_ -= free_[bin].back().bytes;
      Free(free_[bin].back());
      free_[bin].pop_back();
    }
  }
}

void KeptMemory::Use(size_t bytes) {
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
}

KeptMemory::Block KeptMemory::Take(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return {};
  bytes = std::max(bytes, kLeastBytes);
  const size_t step = size_t{1} << (LogOf(bytes) - 3);
  Block block;
  block.bytes = (bytes + step - 1) / step * step;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Block>& bin = free_[BinOf(block.bytes)];
    if (!bin.empty()) {
      block = bin.back();
      bin.pop_back();
      kept_ -= block.bytes;
      Use(block.bytes);
      return block;
    }
    if (block.bytes >= kSpread) block.before = taken_++ * kAlignment % kPage;
  }
  char* const data = static_cast<char*>(std::aligned_alloc(kAlignment, block.before + block.bytes));
  if (data == nullptr) return {};
  block.data = data + block.before;
  std::lock_guard<std::mutex> lock(mutex_);
  Use(block.bytes);
  return block;
}

void KeptMemory::Give(Block block) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    used_ -= block.bytes;
    if (kept_ + block.bytes <= Limit()) {
      kept_ += block.bytes;
      free_[BinOf(block.bytes)].push_back(block);
      return;
    }
  }
  Free(block);
}

size_t KeptMemory::kept() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kept_;
}

}  // namespace tf_booster
