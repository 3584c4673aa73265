#include "cc/tf/datasets/shared_seeds.h"

#include <map>
#include <mutex>

namespace tf_booster {
namespace {

struct Shared {
  std::mutex mutex;
  std::map<int64_t, std::weak_ptr<SeedSequence>> seeds;
  int64_t next = 1;
};

Shared& All() {
  static Shared* const all = new Shared;  // Never freed: datasets may live as long as the process.
  return *all;
}

}  // namespace

int64_t ShareSeeds(const std::shared_ptr<SeedSequence>& seeds) {
  Shared& all = All();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.seeds.begin(); it != all.seeds.end();) it = it->second.expired() ? all.seeds.erase(it) : ++it;
  all.seeds.emplace(all.next, seeds);
  return all.next++;
}

std::shared_ptr<SeedSequence> SharedSeeds(int64_t number) {
  Shared& all = All();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.seeds.find(number);
  return found == all.seeds.end() ? nullptr : found->second.lock();
}

}  // namespace tf_booster
