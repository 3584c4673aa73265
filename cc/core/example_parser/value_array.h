// A growing array of trivial values that is never filled with zeros and keeps its memory from one batch to the next. It
// can be lent memory, and moves to its own when that is full.
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
    std::swap(own_, other.own_);
    std::swap(own_capacity_, other.own_capacity_);
    return *this;
  }
  ~ValueArray() { std::free(own_); }

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
  // Values that fit behind the last one without growing.
  size_t room() const { return capacity_ - size_; }
  // Empty, and in memory of its own.
  void clear() {
    size_ = 0;
    data_ = own_;
    capacity_ = own_capacity_;
  }

  // Uses memory of the caller from now on, `capacity` values of it, until clear. Called again with the same `data`, it
  // only changes the capacity. An array that has values elsewhere stays where it is.
  void Lend(T* data, size_t capacity) {
    if (data_ != data && size_ > 0) return;
    data_ = data;
    capacity_ = capacity;
  }

  bool is_lent() const { return data_ != own_; }

  // Gives its own memory away, size() values aligned to kAlignment, for std::free. The array is empty then, and when it
  // fills again it asks for as much as there was, and an eighth more, at once. Not for values in memory that was lent.
  T* Release() {
    hint_ = size_ + size_ / 8;
    size_ = capacity_ = own_capacity_ = 0;
    data_ = nullptr;
    return std::exchange(own_, nullptr);
  }

  static constexpr size_t kAlignment = 64;

 private:
  void Grow(size_t more) {
    size_t capacity = size_ + more;
    if (capacity < capacity_ * 2) capacity = capacity_ * 2;
    if (capacity < hint_) capacity = hint_;
    if (capacity < 64) capacity = 64;
    if (is_lent() && capacity <= own_capacity_) return MoveTo(own_, own_capacity_);
    void* data = nullptr;
    if (capacity < SIZE_MAX / sizeof(T) / 2) {
      data = std::aligned_alloc(kAlignment, (capacity * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment);
    }
    if (data == nullptr) throw std::bad_alloc();
    T* const before = own_;
    MoveTo(static_cast<T*>(data), capacity);
    std::free(before);
    own_ = data_;
    own_capacity_ = capacity;
  }

  void MoveTo(T* data, size_t capacity) {
    // All of it: what was written into reserved room need not be counted in size_ yet.
    if (capacity_ > 0) std::memcpy(data, data_, capacity_ * sizeof(T));
    data_ = data;
    capacity_ = capacity;
  }

  T* data_ = nullptr;  // own_, or what was lent.
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t hint_ = 0;
  T* own_ = nullptr;
  size_t own_capacity_ = 0;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_VALUE_ARRAY_H_
