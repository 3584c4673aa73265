// What is known of a vocabulary that does not change: the ids of keys that were looked up before, and some keys that it
// has not. 16 bytes for a number, 32 and its own text for a text; at most half of the places are taken.
#ifndef TF_BOOSTER_CC_CORE_VOCABULARY_KNOWN_IDS_H_
#define TF_BOOSTER_CC_CORE_VOCABULARY_KNOWN_IDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tf_booster {

// A key whose hash no other key has.
struct KeyIsHash {};

// Key: std::string_view, whose hashes may be equal, at the price of a comparison; or KeyIsHash. Threads may look at
// once; who adds is alone.
template <class Key>
class KnownIds {
 public:
  enum class Answer { kUnknown, kId, kAbsent };

  // Keys that the vocabulary has not are remembered up to here: there is no end of them.
  static constexpr size_t kMostAbsent = size_t{1} << 16;

  KnownIds() : slots_(kFirstSlots) {}
  KnownIds(KnownIds&&) noexcept = default;  // Of which slots point into texts.
  KnownIds& operator=(KnownIds&&) noexcept = default;

  void Prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }

  // Sets `id` for kId alone.
  Answer Find(uint64_t hash, Key key, int64_t* id) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.id == kFree) return Answer::kUnknown;
      if (slot.hash != hash || !slot.Has(key)) continue;
      if (slot.id == kAbsent) return Answer::kAbsent;
      *id = slot.id;
      return Answer::kId;
    }
  }

  // A key that is there stays as it is.
  void AddId(uint64_t hash, Key key, int64_t id) {
    if (id != kFree && id != kAbsent) Add(hash, key, id);
  }
  void AddAbsent(uint64_t hash, Key key) {
    if (absent_ < kMostAbsent && Add(hash, key, kAbsent)) ++absent_;
  }

  size_t size() const { return size_; }

 private:
  static constexpr size_t kFirstSlots = 64;
  // In place of ids; those themselves are not remembered.
  static constexpr int64_t kFree = std::numeric_limits<int64_t>::min(), kAbsent = kFree + 1;

  struct Text {
    std::string_view key;
    bool Has(std::string_view other) const { return key == other; }
  };
  struct Nothing {
    bool Has(KeyIsHash) const { return true; }
  };
  using Held = std::conditional_t<std::is_same_v<Key, KeyIsHash>, Nothing, Text>;
  struct Slot : Held {
    uint64_t hash = 0;
    int64_t id = kFree;
  };

  bool Add(uint64_t hash, Key key, int64_t id) {
    int64_t ignored;
    if (Find(hash, key, &ignored) != Answer::kUnknown) return false;
    if (2 * (size_ + 1) > slots_.size()) Grow();
    Slot made;
    static_cast<Held&>(made) = Keep(key);
    made.hash = hash;
    made.id = id;
    Put(made);
    ++size_;
    return true;
  }

  void Put(const Slot& made) {
    const size_t mask = slots_.size() - 1;
    size_t at = made.hash & mask;
    while (slots_[at].id != kFree) at = (at + 1) & mask;
    slots_[at] = made;
  }

  void Grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kFree) Put(slot);
    }
  }

  static Nothing Keep(KeyIsHash) { return {}; }
  Text Keep(std::string_view key) { return {texts_.emplace_back(key)}; }

  std::vector<Slot> slots_;  // A power of two of them.
  std::deque<std::string> texts_;
  size_t size_ = 0, absent_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_VOCABULARY_KNOWN_IDS_H_
