// An error of the card is the Status of the call that meets it, with the table's name, whatever the call is.
#include <functional>

#include "cc/core/base/test.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {
namespace {

TEST(EachCallTellsOfTheCardsError) {
  constexpr int64_t kKeys = 3;
  std::unique_ptr<GpuTable> table;
  GpuTableConfig config;
  config.allocator = HostAllocator();
  EXPECT_OK(NewHostStandInTable(OneField(2), &table, config, 1));
  SerialFor pf;
  const Batch batch({1, 2, 3});
  const KeyBatch keys = batch.ref();
  const gpu::DeviceKeys device_keys = {batch.keys.data(), nullptr, kKeys};
  std::vector<float> rows(2 * kKeys);
  std::vector<uint8_t> found(kKeys);
  std::vector<RowHandle> handles(kKeys);
  const std::vector<int64_t> codes = {1, 2, 3};
  const std::vector<GatherPart> parts = {{codes.data(), kKeys, rows.data()}};
  const auto nothing = [](int64_t, float*) {};
  const auto no_step = [](const gpu::DeviceState&, const uint32_t*) { return Status(); };
  EXPECT_OK(table->FindOrInsert(keys, rows.data(), pf));
  const TableContents contents = ExportAll(*table, pf);
  const Borrow borrowed(contents);
  const auto allocate = [&](std::vector<ContentsOut>*) { return Status(); };
  const auto take_heads = [&](const std::vector<ContentsOut>&) { return Status(); };
  const auto take = [&](const ContentsPiece&) { return Status(); };
  TableStats stats;
  const std::vector<std::function<Status()>> calls = {
      [&] { return table->FindAsync(device_keys, rows.data(), found.data()); },
      [&] { return table->FindHandlesAsync(device_keys, handles.data()); },
      [&] { return table->GatherAsync(device_keys, nullptr, parts); },
      [&] {
        return table->UpdateAsync({device_keys, nullptr, nullptr, {}}, no_step);
      },
      [&] { return table->Find(keys, rows.data(), found.data(), pf); },
      [&] { return table->FindHandles(keys, handles.data(), pf); },
      [&] { return table->Gather(keys, handles.data(), parts, pf); },
      [&] { return table->FindOrInsert(keys, rows.data(), pf); },
      [&] { return table->InsertOrAssign(keys, rows.data(), pf); },
      [&] {
        return table->Update({keys, nullptr, nullptr}, RowByRow(nothing), pf);
      },
      [&] { return table->Erase(keys, nullptr, pf); },
      [&] { return table->Reserve(1000, pf); },
      [&] { return table->Export({0}, allocate, pf); },
      [&] { return table->ExportPieces({0}, true, take_heads, take, pf); },
      [&] { return table->Import(borrowed, pf); },
      [&] { return table->FieldStats(0, &stats); },
      [&] { return table->Clear(0); },
  };
  for (const auto& call : calls) {
    gpu::HostQueue::Break("an illegal memory access was encountered");
    const Status status = call();
    gpu::HostQueue::Break(nullptr);
    EXPECT_TRUE(status.code() == StatusCode::kInternal);
    const std::string wanted = "Table '" + table->options().name + "': the card said: an illegal memory access";
    EXPECT_EQ(status.message().find(wanted), size_t{0});
  }
}

}  // namespace
}  // namespace tf_booster::contract
