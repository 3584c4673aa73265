// A growing array of trivial values that is never filled with zeros and keeps its memory from one batch to the next.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_VALUE_ARRAY_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_VALUE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace tf_booster::example_parser {

template <class T>
class ValueArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  ValueArray() = default;
  ValueArray(const ValueArray&) = delete;
  ValueArray& operator=(const ValueArray&) = delete;
  ValueArray(ValueArray&& other) noexcept { *this = std::move(other); }
  ValueArray& operator=(ValueArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(hint_, other.hint_);
    return *this;
  }
  ~ValueArray() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

  // Room for `more` values behind the last one; the address of the first of them. Throws std::bad_alloc.
  T* Reserve(size_t more) {
    if (capacity_ - size_ < more) Grow(more);
    return data_ + size_;
  }
  void set_size(size_t size) { size_ = size; }  // At most what was reserved.
  void push_back(T value) {
    *Reserve(1) = value;
    ++size_;
  }
  void clear() { size_ = 0; }

  // Gives the memory away, size() values aligned to kAlignment, for std::free. The array is empty then, and when it
  // fills again it asks for as much as there was, and an eighth more, at once.
  T* Release() {
    hint_ = size_ + size_ / 8;
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

  static constexpr size_t kAlignment = 64;

 private:
  void Grow(size_t more) {
    size_t capacity = size_ + more;
    if (capacity < capacity_ * 2) capacity = capacity_ * 2;
    if (capacity < hint_) capacity = hint_;
    if (capacity < 64) capacity = 64;
    void* data = nullptr;
    if (capacity < SIZE_MAX / sizeof(T) / 2) {
      data = std::aligned_alloc(kAlignment, (capacity * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment);
    }
    if (data == nullptr) throw std::bad_alloc();
    // All of it: what was written into reserved room need not be counted in size_ yet.
    if (capacity_ > 0) std::memcpy(data, data_, capacity_ * sizeof(T));
    std::free(data_);
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t hint_ = 0;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_VALUE_ARRAY_H_
