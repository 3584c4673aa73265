#include "cc/core/example_parser/feature_index.h"

#include <set>

namespace tf_booster::example_parser {

uint64_t FeatureIndex::Hash(const uint8_t* key, size_t size, uint64_t seed) const {
  if (size >= 8) return HashReadableKey(key, size, seed);
  uint8_t padded[8] = {};
  if (size > 0) std::memcpy(padded, key, size);
  return HashReadableKey(padded, size, seed);
}

int FeatureIndex::Fill(const std::vector<const std::string*>& names, uint64_t seed) {
  slots_.assign(slots_.size(), Slot{});
  std::set<uint32_t> tags;
  int displaced = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const uint64_t h = Hash(reinterpret_cast<const uint8_t*>(names[i]->data()), names[i]->size(), seed);
    if (!tags.insert(static_cast<uint32_t>(h)).second) return -1;
    size_t at = h >> shift_;
    displaced += slots_[at].feature >= 0;
    while (slots_[at].feature >= 0) at = (at + 1) & mask_;
    slots_[at] = {static_cast<uint32_t>(h), static_cast<int32_t>(i)};
  }
  return displaced;
}

bool FeatureIndex::Build(const std::vector<const std::string*>& names) {
  std::set<std::string> distinct;
  for (const std::string* name : names) {
    if (!distinct.insert(*name).second) return false;
  }
  names_ = names;
  // At an eighth full, 39 keys meet in no slot for one seed in five, so that a lookup never branches another way than
  // the one before; thousands of keys are content with few that meet.
  int bits = 2;
  while ((size_t{1} << bits) < 8 * names.size()) ++bits;
  slots_.resize(size_t{1} << bits);
  mask_ = slots_.size() - 1;
  shift_ = 64 - bits;
  int best = -1;
  uint64_t seed = 0x9e3779b97f4a7c15;
  for (int i = 0; best != 0 && (i < 32 || best < 0); ++i) {
    seed = FoldedProduct(seed, 0xa0761d6478bd642f);
    const int displaced = Fill(names, seed);
    if (displaced < 0 || (best >= 0 && displaced >= best)) continue;
    best = displaced;
    seed_ = seed;
  }
  Fill(names, seed_);
  return true;
}

int32_t FeatureIndex::Find(const uint8_t* key, size_t size) const {
  uint8_t padded[8] = {};
  const bool is_short = size < 8;
  if (is_short && size > 0) std::memcpy(padded, key, size);
  const int32_t feature = Candidate(is_short ? padded : key, size);
  if (feature < 0) return -1;
  const std::string& name = *names_[feature];
  return name.size() == size && (size == 0 || std::memcmp(name.data(), key, size) == 0) ? feature : -1;
}

}  // namespace tf_booster::example_parser
