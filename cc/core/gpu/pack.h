// Neighbouring elements that a thread takes at once. Fewer and wider accesses keep more bytes under way: a card hides
// its memory's latency by what its threads have asked for, and of 4 bytes each that is not enough.
#ifndef TF_BOOSTER_CC_CORE_GPU_PACK_H_
#define TF_BOOSTER_CC_CORE_GPU_PACK_H_

#include <cstdint>
#include <cstring>

#include "cc/core/base/host_device.h"

// In front of short loops over local arrays: nvcc puts an array that is indexed by a variable into local memory, and
// leaves loops with larger bodies (8 steps of 16 bits) as they are. TFB_ROLLED: in front of those that it must not
// unroll, for a body that is rare and takes many registers.
#if defined(__CUDA_ARCH__)
#define TFB_UNROLL _Pragma("unroll")
#define TFB_ROLLED _Pragma("unroll 1")
#else
#define TFB_UNROLL
#define TFB_ROLLED
#endif

namespace tf_booster {
namespace gpu {

// The widest access of a thread.
inline constexpr int64_t kPackBytes = 16;

template <class T, int kElements = static_cast<int>(kPackBytes / sizeof(T))>
struct alignas(kElements * sizeof(T)) Pack {
  using Type = T;
  static constexpr int kSize = kElements;
  T at[kSize];

  TFB_HOST_DEVICE Pack& operator+=(const Pack& other) {
    TFB_UNROLL
    for (int i = 0; i < kSize; ++i) at[i] += other.at[i];
    return *this;
  }
  TFB_HOST_DEVICE friend Pack operator*(Pack a, const Pack& b) {
    TFB_UNROLL
    for (int i = 0; i < kSize; ++i) a.at[i] *= b.at[i];
    return a;
  }
  TFB_HOST_DEVICE Pack& operator*=(T factor) {
    TFB_UNROLL
    for (int i = 0; i < kSize; ++i) at[i] *= factor;
    return *this;
  }
  TFB_HOST_DEVICE Pack& operator/=(T divisor) {
    TFB_UNROLL
    for (int i = 0; i < kSize; ++i) at[i] /= divisor;
    return *this;
  }
};
// Where addresses do not allow more.
template <class T>
using One = Pack<T, 1>;

inline bool IsPackAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0; }

// Units of a matrix's row of `dim` columns: one a pack, or one a column.
template <class T>
TFB_HOST_DEVICE int64_t UnitsOfRow(bool packed, int64_t dim) {
  return packed ? dim / Pack<T>::kSize : dim;
}
// Calls run(V(), row, column) for the columns of a unit; V: Pack<T> or One<T>.
template <class T, class Run>
TFB_HOST_DEVICE void RunColumns(bool packed, int64_t dim, int64_t unit, const Run& run) {
  const int64_t units = UnitsOfRow<T>(packed, dim), row = unit / units, of_row = unit - row * units;
  if (packed) {
    run(Pack<T>(), row, of_row * Pack<T>::kSize);
  } else {
    run(One<T>(), row, of_row);
  }
}

#if defined(__CUDA_ARCH__)
// The card's word of so many bytes.
template <size_t kBytes>
struct CardWord;
template <>
struct CardWord<16> {
  using Type = uint4;
};
template <>
struct CardWord<8> {
  using Type = uint2;
};
template <>
struct CardWord<4> {
  using Type = unsigned int;
};
template <>
struct CardWord<2> {
  using Type = unsigned short;
};
template <>
struct CardWord<1> {
  using Type = unsigned char;
};
#endif

// One load of the whole value, from memory that no thread of the kernel writes.
template <class V>
TFB_HOST_DEVICE V LoadPack(const V* from) {
#if defined(__CUDA_ARCH__)
  using Word = typename CardWord<sizeof(V)>::Type;
  const Word word = __ldg(reinterpret_cast<const Word*>(from));
  V value;
  memcpy(&value, &word, sizeof(V));
  return value;
#else
  return *from;
#endif
}

// One store of the whole value, past the first-level cache: nobody of this multiprocessor reads it again.
template <class V>
TFB_HOST_DEVICE void StorePack(V* to, const V& value) {
#if defined(__CUDA_ARCH__)
  using Word = typename CardWord<sizeof(V)>::Type;
  Word word;
  memcpy(&word, &value, sizeof(V));
  __stcg(reinterpret_cast<Word*>(to), word);
#else
  *to = value;
#endif
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_PACK_H_
