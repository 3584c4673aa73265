// What a row of the CPU table takes beyond itself and its key, on average over the sizes between two growths of the
// index and at worst.
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cc/core/base/huge_page_pieces.h"
#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/key_patterns.h"
#include "cc/core/hash_table/contract/memory_per_row.h"

namespace tf_booster::contract {
namespace {

Overhead OverheadOf(const TableOptions& options) {
  std::unique_ptr<HashTable> table;
  EXPECT_OK(NewCpuTable(options, &table));
  return OverheadOfInserts(table.get());
}

}  // namespace

TEST(ARowTakes32BytesBeyondItselfAndItsKey) {
  const Overhead plain = OverheadOf(OneField(16, 2));
  EXPECT_TRUE(plain.average <= 32 && plain.worst <= 41);
  const Overhead fused = OverheadOf(ThreeFields(16));
  EXPECT_TRUE(fused.average <= 32 && fused.worst <= 41);
}

TEST(AFilterTakesNothingOfARow) {
  TableOptions options = OneField(16);
  options.fields[0].min_frequency = 3;
  EXPECT_TRUE(OverheadOf(options).average <= 32);
}

TEST(EvictionTakesAByteMore) {
  for (const EvictionOptions& eviction : {EvictionOptions{1000, 0}, EvictionOptions{0, 1 << 20, EvictionOrder::kLru},
                                          EvictionOptions{0, 1 << 20, EvictionOrder::kLfu}}) {
    for (TableOptions options : {OneField(16), ThreeFields(16)}) {
      for (FieldOptions& field : options.fields) field.eviction = eviction;
      const Overhead found = OverheadOf(options);
      EXPECT_TRUE(found.average <= 32 && found.worst <= 42);
    }
  }
}

namespace {

// Remembers its blocks and what was asked for in them.
class AskedMemory final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    char* memory = static_cast<char*>(HostAllocator()->Allocate(bytes));
    if (bytes >= kHugePage) blocks[memory] = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    return memory;
  }
  void Free(void* memory, size_t bytes) override {
    blocks.erase(static_cast<char*>(memory));
    HostAllocator()->Free(memory, bytes);
  }
  void CommitSoon(void* memory, size_t bytes) override {
    char* const begin = static_cast<char*>(memory);
    const auto block = --blocks.upper_bound(begin);
    within_a_block &= begin >= block->first && begin + bytes <= block->first + block->second;
    for (size_t done = 0; done < bytes; done += kHugePage) twice |= !pages.insert(begin + done).second;
  }

  std::map<char*, size_t> blocks;
  std::set<char*> pages;
  bool within_a_block = true;
  bool twice = false;
};

// Refuses whole huge pages, as only those are that are asked for ahead.
class AtMost final : public MemoryProbe {
 public:
  bool Grant(int64_t bytes, int64_t* left) override {
    *left = 0;
    return !refuse_whole_pages || bytes % static_cast<int64_t>(kHugePage) != 0;
  }
  bool refuse_whole_pages = false;
};

}  // namespace

// A batch asks for the huge pages that the next one will touch first, each once and none of other blocks; not where
// memory is scarce.
TEST(PagesAreAskedForBeforeTheyAreTouched) {
  constexpr int64_t kRows = 100000, kBatch = 5000;  // 48 MB of rows.
  const std::vector<int64_t> keys = MakeKeys(Pattern::kRandom, kRows);
  std::vector<float> out(kBatch * 120);
  SerialFor pf;
  for (const bool granted : {true, false}) {
    AskedMemory asked;
    AtMost memory;
    CpuTableConfig config;
    config.allocator = &asked;
    config.memory = &memory;
    std::unique_ptr<HashTable> table;
    EXPECT_OK(NewCpuTable(OneField(120, 0), &table, config));
    for (int64_t begin = 0; begin < kRows; begin += kBatch) {
      const size_t before = asked.pages.size();
      memory.refuse_whole_pages = !granted;
      EXPECT_OK(table->FindOrInsert({keys.data() + begin, nullptr, kBatch}, out.data(), pf));
      EXPECT_TRUE((asked.pages.size() - before) * kHugePage <= kBatch * 512 + 2 * kHugePage);
    }
    EXPECT_TRUE(asked.within_a_block);
    EXPECT_FALSE(asked.twice);
    // Of 24 pages all but the first ones of each slab.
    EXPECT_TRUE(granted ? asked.pages.size() >= 14 && asked.pages.size() <= 26 : asked.pages.empty());
  }
}

}  // namespace tf_booster::contract
