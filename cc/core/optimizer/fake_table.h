// A table for tests of what calls HashTable::Update: a map under a lock, rows admitted at once, nothing evicted.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_FAKE_TABLE_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_FAKE_TABLE_H_

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cc/core/hash_table/hash_table.h"

namespace tf_booster {

class FakeTable final : public HashTable {
 public:
  FakeTable(int64_t dim, int num_slots, int64_t rows_a_call, int fields = 1) : rows_a_call_(rows_a_call) {
    options_.name = "fake";
    options_.dim = dim;
    options_.slot_initial_values.assign(num_slots, 0.5f);
    options_.fields.resize(fields);
  }

  const TableOptions& options() const override { return options_; }

  Status Update(const UpdateBatch& batch, RowUpdateFn update, ParallelFor& pf) override {
    ++step_;
    stepped_ = batch.fields;
    std::vector<int64_t> positions;
    std::vector<float*> rows;
    for (int64_t i = 0; i < batch.keys.size; ++i) {
      const Key key(batch.keys.fields == nullptr ? batch.keys.field : batch.keys.fields[i], batch.keys.keys[i]);
      std::vector<float>& row = rows_[key];
      row.resize(options_.dim * (1 + options_.slot_initial_values.size()), 0.5f);
      frequencies_[key] += batch.counts != nullptr ? batch.counts[i] : 1;
      positions.push_back(i);
      rows.push_back(row.data());
    }
    pf.Run(batch.keys.size, 1000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += rows_a_call_) {
        const int64_t size = std::min(rows_a_call_, end - i);
        update({positions.data() + i, rows.data() + i, size, std::min(rows_a_call_, end - i - size), i == begin});
      }
    });
    return Status();
  }

  using Key = std::pair<uint32_t, int64_t>;  // Field and id.

  std::map<Key, std::vector<float>>& rows() { return rows_; }
  std::map<Key, int64_t>& frequencies() { return frequencies_; }
  int64_t step() const { return step_; }
  const std::vector<uint32_t>& stepped() const { return stepped_; }

  // Not used by updates.
  Status Find(const KeyBatch&, float*, uint8_t*, ParallelFor&) const override { return Unused(); }
  Status FindHandles(const KeyBatch&, RowHandle*, ParallelFor&) const override { return Unused(); }
  Status Gather(const KeyBatch&, const RowHandle*, const std::vector<GatherPart>&, ParallelFor&) const override {
    return Unused();
  }
  Status FindOrInsert(const KeyBatch&, float*, ParallelFor&) override { return Unused(); }
  Status InsertOrAssign(const KeyBatch&, const float*, ParallelFor&) override { return Unused(); }
  Status Erase(const KeyBatch&, int64_t*, ParallelFor&) override { return Unused(); }
  Status Reserve(int64_t, ParallelFor&) override { return Unused(); }
  Status Export(const std::vector<uint32_t>&, FunctionRef<Status(std::vector<ContentsOut>*)>,
                ParallelFor&) const override {
    return Unused();
  }
  Status ExportPieces(const std::vector<uint32_t>&, bool, FunctionRef<Status(const std::vector<ContentsOut>&)>,
                      FunctionRef<Status(const ContentsPiece&)>, ParallelFor&) const override {
    return Unused();
  }
  Status ListLeaving(uint32_t) override { return Unused(); }
  Status ReadMark(uint32_t, FieldMark*) const override { return Unused(); }
  Status ExportChanges(std::vector<FieldChanges>, FunctionRef<Status(const std::vector<FieldChanges>&)>,
                       FunctionRef<Status(const ContentsPiece&)>, ParallelFor&) const override {
    return Unused();
  }
  Status ImportPieces(const std::vector<ContentsSource>&, ParallelFor&) override { return Unused(); }
  Status Clear(uint32_t) override { return Unused(); }
  Status FieldStats(uint32_t, TableStats*) const override { return Unused(); }
  TableStats Stats() const override { return {}; }
  int64_t FieldSize(uint32_t) const override { return static_cast<int64_t>(rows_.size()); }

 private:
  static Status Unused() { return Status(StatusCode::kInternal, "not part of the fake"); }

  TableOptions options_;
  const int64_t rows_a_call_;
  std::map<Key, std::vector<float>> rows_;
  std::map<Key, int64_t> frequencies_;
  std::vector<uint32_t> stepped_;
  int64_t step_ = 0;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_FAKE_TABLE_H_
