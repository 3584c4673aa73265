#include "cc/core/base/huge_page_pieces.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tf_booster {

// Maps one huge page more than asked and gives the ends back, so that the block starts on a huge page's border.
void* MapHugePages(size_t bytes) {
  void* mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* memory = static_cast<char*>(mapped);
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  char* begin = memory + head;
  if (head > 0) munmap(memory, head);
  munmap(begin + bytes, kHugePage - head);  // Never empty: mmap's borders are those of smaller pages.
  madvise(begin, bytes, MADV_HUGEPAGE);     // A wish: without huge pages all is as right, only slower.
  return begin;
}

HugePagePieces::~HugePagePieces() {
  for (const Page& page : pages_) munmap(page.begin, kHugePage);
}

uint64_t HugePagePieces::Units(size_t bytes) {
  const size_t units = (bytes + kUnit - 1) / kUnit;
  return units == 64 ? ~uint64_t{0} : (uint64_t{1} << units) - 1;
}

void* HugePagePieces::Take(size_t bytes) {
  const uint64_t units = Units(bytes);
  char* piece = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Page& page : pages_) {
      for (int at = 0; piece == nullptr && at < 64 && units << at >> at == units; ++at) {
        if ((page.used & units << at) != 0) continue;
        page.used |= units << at;
        piece = page.begin + at * kUnit;
      }
      if (piece != nullptr) break;
    }
    if (piece == nullptr) {
      try {
        pages_.reserve(pages_.size() + 1);
      } catch (const std::bad_alloc&) {
        return nullptr;
      }
      piece = static_cast<char*>(MapHugePages(kHugePage));
      if (piece == nullptr) return nullptr;
      pages_.push_back({piece, units});
      return piece;  // As the system zeroed it.
    }
  }
  std::memset(piece, 0, bytes);  // Somebody may have had it before.
  return piece;
}

void HugePagePieces::Give(void* memory, size_t bytes) {
  char* piece = static_cast<char*>(memory);
  char* empty = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto page = std::find_if(pages_.begin(), pages_.end(),
                                   [&](const Page& p) { return p.begin <= piece && piece < p.begin + kHugePage; });
    page->used &= ~(Units(bytes) << (piece - page->begin) / kUnit);
    if (page->used == 0) {
      empty = page->begin;
      *page = pages_.back();
      pages_.pop_back();
    }
  }
  if (empty != nullptr) munmap(empty, kHugePage);
}

size_t HugePagePieces::pages() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pages_.size();
}

}  // namespace tf_booster
