// Which sectors of memory a cache holds: lines of 128 bytes of which sectors of 32 come and go by themselves, as in the
// L1 and L2 of NVIDIA's cards, sixteen lines of a set, of which the one goes that was used longest ago.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_CACHE_H_
#define TF_BOOSTER_CC_PTX_MACHINE_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tf_booster::ptx {

inline constexpr int kSectorBytes = 32, kLineSectors = 4;

class Cache {
 public:
  // At least one set.
  explicit Cache(int64_t bytes)
      : lines_(static_cast<size_t>(std::max<int64_t>(bytes / (kWays * kLineSectors * kSectorBytes), 1)) * kWays) {}

  // Whether it had the sector; it has it now. `written_back` is called with the owner of each sector that was written
  // and has to go.
  template <class WrittenBack>
  bool Read(uint64_t sector, const WrittenBack& written_back) {
    Line& line = Find(sector, written_back);
    const uint8_t bit = static_cast<uint8_t>(1 << sector % kLineSectors);
    const bool hit = (line.present & bit) != 0;
    line.present |= bit;
    return hit;
  }
  // What is written is not fetched first.
  template <class WrittenBack>
  void Write(uint64_t sector, uint32_t owner, const WrittenBack& written_back) {
    Line& line = Find(sector, written_back);
    const uint8_t bit = static_cast<uint8_t>(1 << sector % kLineSectors);
    line.present |= bit;
    line.dirty |= bit;
    line.owner = owner;
  }

  int64_t bytes() const { return static_cast<int64_t>(lines_.size()) * kLineSectors * kSectorBytes; }

 private:
  static constexpr int kWays = 16;
  struct Line {
    uint64_t tag = ~uint64_t{0};
    uint64_t used = 0;
    uint32_t owner = 0;
    uint8_t present = 0, dirty = 0;
  };

  template <class WrittenBack>
  Line& Find(uint64_t sector, const WrittenBack& written_back) {
    const uint64_t tag = sector / kLineSectors;
    // As a card does, so that powers of two between addresses do not meet in one set.
    const uint64_t set = (tag * 0x9e3779b97f4a7c15 >> 32) * (lines_.size() / kWays) >> 32;
    Line* const ways = &lines_[set * kWays];
    Line* oldest = ways;
    for (int way = 0; way < kWays; ++way) {
      if (ways[way].tag == tag) {
        ways[way].used = ++now_;
        return ways[way];
      }
      if (ways[way].used < oldest->used) oldest = &ways[way];
    }
    for (int dirty = oldest->dirty; dirty != 0; dirty &= dirty - 1) written_back(oldest->owner);
    *oldest = Line();
    oldest->tag = tag;
    oldest->used = ++now_;
    return *oldest;
  }

  std::vector<Line> lines_;
  uint64_t now_ = 0;
};

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_CACHE_H_
