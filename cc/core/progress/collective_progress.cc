#include "cc/core/progress/collective_progress.h"

#include <map>
#include <memory>
#include <mutex>

namespace tf_booster {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CollectiveProgress>> collectives;
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;  // Never freed: the watchdog's thread may outlive static objects.
  return *registry;
}

}  // namespace

CollectiveProgress* ProgressOf(const std::string& collective) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::unique_ptr<CollectiveProgress>& found = registry.collectives[collective];
  if (found == nullptr) found = std::make_unique<CollectiveProgress>();
  return found.get();
}

std::string ProgressText() {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::string text;
  for (const auto& [name, progress] : registry.collectives) {
    // What was left is read first: it is never more than what was entered.
    const int64_t left = progress->left.load();
    text += std::to_string(progress->entered.load()) + " " + std::to_string(left) + " " + name + "\n";
  }
  return text;
}

}  // namespace tf_booster
