#include "cc/tf/kernels/row_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tf_booster {

using tensorflow::Tensor;
using tensorflow::tstring;

namespace {

constexpr int kMaxBlockBits = 8;
constexpr int64_t kMaxBlockBytes = int64_t{1} << 20;

// Of strings the tstrings.
char* Bytes(const Tensor& tensor) { return static_cast<char*>(tensor.data()); }

// Of a few bytes memcpy is a call that costs more than the copy.
void CopyRow(const char* from, int64_t bytes, char* to) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

RowSlots::RowSlots(const tensorflow::DataTypeVector& dtypes, const std::vector<tensorflow::TensorShape>& shapes) {
  int64_t row_bytes = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int64_t items = shapes[i].num_elements();
    const int64_t size = dtypes[i] == tensorflow::DT_STRING ? sizeof(tstring) : tensorflow::DataTypeSize(dtypes[i]);
    components_.push_back({dtypes[i], shapes[i], items, items * size, {}, {}});
    row_bytes += items * size;
  }
  block_bits_ = kMaxBlockBits;
  while (block_bits_ > 0 && (row_bytes << block_bits_) > kMaxBlockBytes) --block_bits_;
}

void RowSlots::MakeBlock() {
  const int64_t rows = int64_t{1} << block_bits_;
  const int64_t first = static_cast<int64_t>(components_[0].blocks.size()) << block_bits_;
  for (Component& component : components_) {
    tensorflow::TensorShape shape = component.shape;
    shape.InsertDim(0, rows);
    component.blocks.emplace_back(component.dtype, shape);
    component.data.push_back(Bytes(component.blocks.back()));
  }
  for (int64_t i = rows - 1; i >= 0; --i) free_.push_back(first + i);
}

template <class Copy>
void RowSlots::ForEach(const Component& component, const int64_t* slots, int64_t count, const Copy& copy) const {
  const int64_t mask = (int64_t{1} << block_bits_) - 1;
  for (int64_t j = 0; j < count; ++j) {
    copy(j, component.data[slots[j] >> block_bits_] + (slots[j] & mask) * component.bytes);
  }
}

void RowSlots::Put(const std::vector<Tensor>& tensors, int64_t first, int64_t count, std::vector<int64_t>* slots) {
  while (static_cast<int64_t>(free_.size()) < count) MakeBlock();
  slots->insert(slots->end(), free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  const int64_t* taken = slots->data() + slots->size() - count;
  for (size_t i = 0; i < components_.size(); ++i) {
    const int64_t items = components_[i].items, bytes = components_[i].bytes;
    if (items == 0) continue;
    const char* from = Bytes(tensors[i]) + first * bytes;
    if (components_[i].dtype == tensorflow::DT_STRING) {
      ForEach(components_[i], taken, count, [&](int64_t j, char* slot) {
        std::copy_n(reinterpret_cast<const tstring*>(from) + j * items, items, reinterpret_cast<tstring*>(slot));
      });
    } else {
      ForEach(components_[i], taken, count, [&](int64_t j, char* slot) { CopyRow(from + j * bytes, bytes, slot); });
    }
  }
}

void RowSlots::Take(const int64_t* slots, int64_t count, std::vector<Tensor>* tensors) {
  for (size_t i = 0; i < components_.size(); ++i) {
    const int64_t items = components_[i].items, bytes = components_[i].bytes;
    if (items == 0) continue;
    char* to = Bytes((*tensors)[i]);
    if (components_[i].dtype == tensorflow::DT_STRING) {
      ForEach(components_[i], slots, count, [&](int64_t j, char* slot) {
        tstring* from = reinterpret_cast<tstring*>(slot);
        std::move(from, from + items, reinterpret_cast<tstring*>(to) + j * items);
      });
    } else {
      ForEach(components_[i], slots, count, [&](int64_t j, char* slot) { CopyRow(slot, bytes, to + j * bytes); });
    }
  }
  free_.insert(free_.end(), slots, slots + count);
}

}  // namespace tf_booster
