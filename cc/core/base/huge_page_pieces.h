// Pieces of huge pages, for blocks too small to have one of their own: the index of a table of 10^4 to 10^6 rows is 16
// blocks of 64 KiB to 1 MiB, and on pages of 4 KiB each probe of it misses the TLB as well as the cache (finds of dim
// 128 in 262,144 rows by Zipf's law: 46 ns a key on such pages, 36 in huge ones).
#ifndef TF_BOOSTER_CC_CORE_BASE_HUGE_PAGE_PIECES_H_
#define TF_BOOSTER_CC_CORE_BASE_HUGE_PAGE_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tf_booster {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Memory on a huge page's border that asks for huge pages, zeroed and committed when it is touched; null where there is
// none. `bytes` is a multiple of kHugePage. munmap gives it back.
void* MapHugePages(size_t bytes);

// Any thread may call.
class HugePagePieces {
 public:
  static constexpr size_t kUnit = kHugePage / 64;  // 32 KiB: what pieces are rounded up to.

  ~HugePagePieces();

  // A zeroed piece of 1 to kHugePage bytes, on a border of kUnit; null where there is no memory.
  void* Take(size_t bytes);

  // Gives back what Take(bytes) gave. A huge page without pieces goes back to the system.
  void Give(void* memory, size_t bytes);

  // Huge pages held. For tests.
  size_t pages() const;

 private:
  struct Page {
    char* begin;
    uint64_t used;  // Bit i: unit i is part of a piece.
  };

  static uint64_t Units(size_t bytes);  // As many of the lowest bits as a piece has units.

  mutable std::mutex mutex_;
  std::vector<Page> pages_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_BASE_HUGE_PAGE_PIECES_H_
