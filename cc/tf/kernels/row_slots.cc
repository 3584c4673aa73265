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

char* Bytes(const Tensor& tensor) { return const_cast<char*>(tensor.tensor_data().data()); }

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
    const int64_t bytes = items * tensorflow::DataTypeSize(dtypes[i]);
    components_.push_back({dtypes[i], shapes[i], items, bytes, {}});
    row_bytes += dtypes[i] == tensorflow::DT_STRING ? items * static_cast<int64_t>(sizeof(tstring)) : bytes;
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
  }
  for (int64_t i = rows - 1; i >= 0; --i) free_.push_back(first + i);
}

template <class Copy>
void RowSlots::ForEach(const Component& component, const int64_t* slots, int64_t count, const Copy& copy) const {
  const int64_t mask = (int64_t{1} << block_bits_) - 1;
  for (int64_t j = 0; j < count; ++j) copy(j, component.blocks[slots[j] >> block_bits_], slots[j] & mask);
}

void RowSlots::Put(const std::vector<Tensor>& tensors, int64_t first, int64_t count, std::vector<int64_t>* slots) {
  while (static_cast<int64_t>(free_.size()) < count) MakeBlock();
  slots->insert(slots->end(), free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  const int64_t* taken = slots->data() + slots->size() - count;
  for (size_t i = 0; i < components_.size(); ++i) {
    const int64_t items = components_[i].items, bytes = components_[i].bytes;
    if (items == 0) continue;
    if (components_[i].dtype == tensorflow::DT_STRING) {
      const tstring* from = tensors[i].flat<tstring>().data() + first * items;
      ForEach(components_[i], taken, count, [&](int64_t j, const Tensor& block, int64_t place) {
        std::copy_n(from + j * items, items, const_cast<tstring*>(block.flat<tstring>().data()) + place * items);
      });
    } else {
      const char* from = Bytes(tensors[i]) + first * bytes;
      ForEach(components_[i], taken, count, [&](int64_t j, const Tensor& block, int64_t place) {
        CopyRow(from + j * bytes, bytes, Bytes(block) + place * bytes);
      });
    }
  }
}

void RowSlots::Take(const int64_t* slots, int64_t count, std::vector<Tensor>* tensors) {
  for (size_t i = 0; i < components_.size(); ++i) {
    const int64_t items = components_[i].items, bytes = components_[i].bytes;
    if (items == 0) continue;
    if (components_[i].dtype == tensorflow::DT_STRING) {
      tstring* to = (*tensors)[i].flat<tstring>().data();
      ForEach(components_[i], slots, count, [&](int64_t j, const Tensor& block, int64_t place) {
        tstring* from = const_cast<tstring*>(block.flat<tstring>().data()) + place * items;
        std::move(from, from + items, to + j * items);
      });
    } else {
      char* to = Bytes((*tensors)[i]);
      ForEach(components_[i], slots, count, [&](int64_t j, const Tensor& block, int64_t place) {
        CopyRow(Bytes(block) + place * bytes, bytes, to + j * bytes);
      });
    }
  }
  free_.insert(free_.end(), slots, slots + count);
}

}  // namespace tf_booster
