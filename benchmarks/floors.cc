// Bare loops beside which tables are measured: what a processor core can do at best with the same keys and rows. They
// know the size of everything beforehand, take no lock, check nothing and never grow. floors.py compiles and calls
// them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>

struct Entry {
  int64_t key;
  int64_t row;  // 0: free.
};

namespace {

constexpr int64_t kAhead = 24;

template <int64_t kDim>
void Copy(float* to, const float* from, const float* later) {
  for (int64_t j = 0; j < kDim; j += 16) {
    __builtin_prefetch(later + j, 0, 2);
    for (int64_t k = j; k < std::min(kDim, j + 16); ++k) to[k] = from[k];
  }
}

// Calls body(begin, end) for the halves of [0, n) on two threads, or for all of it.
template <class Body>
void InThreads(int64_t threads, int64_t n, Body body) {
  if (threads < 2) return body(int64_t{0}, n);
  std::thread other([&] { body(n / 2, n); });
  body(int64_t{0}, n / 2);
  other.join();
}

template <int64_t kDim>
void CopyRows(const float* rows, const int64_t* places, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    Copy<kDim>(out + i * kDim, rows + places[i] * kDim, rows + places[std::min(n - 1, i + kAhead)] * kDim);
  }
}

// Of a key, or the one where it belongs.
Entry* Find(Entry* entries, int64_t mask, int64_t key) {
  int64_t place = key & mask;
  while (entries[place].row != 0 && entries[place].key != key) place = (place + 1) & mask;
  return entries + place;
}

template <int64_t kDim>
void FindOrInsert(Entry* entries, int64_t mask, float* rows, const int64_t* keys, int64_t n, int64_t* next,
                  float* out) {
  Entry* found[64];
  for (int64_t i = -2 * kAhead; i < n; ++i) {
    if (i + 2 * kAhead < n) __builtin_prefetch(entries + (keys[i + 2 * kAhead] & mask), 0, 2);
    const int64_t later = i + kAhead;
    if (later >= 0 && later < n) {
      Entry* entry = found[later % 64] = Find(entries, mask, keys[later]);
      if (entry->row == 0) {
        *entry = {keys[later], (*next)++};
        std::fill_n(rows + entry->row * kDim, kDim, 0.0f);
      }
      for (int64_t j = 0; j < kDim; j += 16) __builtin_prefetch(rows + entry->row * kDim + j, 0, 2);
    }
    if (i < 0) continue;
    const float* row = rows + found[i % 64]->row * kDim;
    Copy<kDim>(out + i * kDim, row, row);
  }
}

// Calls update(row, grad, begin, end) for 16 columns after another of each row, which has kFields values a column,
// those of a field one after another. Rows are fetched ahead, and the first line of each still further, as
// row_optimizer.cc does. (18 KiB: Adam took 26.5, 89 to 93 and 190 to 194 ns a row at dims 16, 64 and 128 on Granite
// Rapids with 4.5, and takes 24 to 26, 86 to 90 and as long.)
template <int64_t kDim, int64_t kFields, class Update>
inline void ForColumns(float* rows, const int64_t* places, const float* grads, int64_t n, Update update) {
  constexpr int64_t kRow = kFields * kDim, kRowsAhead = std::max<int64_t>(2, 4608 / kRow);
  for (int64_t i = 0; i < n; ++i) {
    float* const row = rows + places[i] * kRow;
    const float* const later = rows + places[std::min(n - 1, i + kRowsAhead)] * kRow;
    __builtin_prefetch(rows + places[std::min(n - 1, i + kRowsAhead + 8)] * kRow, 0, 2);
    for (int64_t j = 0; j < kDim; j += 16) {
      for (int64_t line = 0; line < kFields; ++line) __builtin_prefetch(later + kFields * j + 16 * line, 0, 2);
      update(row, grads + i * kDim, j, std::min(kDim, j + 16));
    }
  }
}

// A row is embedding, m and v.
template <int64_t kDim>
void Adam(float* rows, const int64_t* places, const float* grads, int64_t n) {
  ForColumns<kDim, 3>(rows, places, grads, n, [](float* row, const float* grad, int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t k = begin; k < end; ++k) {
      const float m = row[kDim + k] += (grad[k] - row[kDim + k]) * 0.1f;
      const float v = row[2 * kDim + k] += (grad[k] * grad[k] - row[2 * kDim + k]) * 0.001f;
      row[k] -= m * 0.05f / (std::sqrt(v) + 1e-8f);
    }
  });
}

// A row is embedding and accumulator.
template <int64_t kDim>
void Adagrad(float* rows, const int64_t* places, const float* grads, int64_t n) {
  ForColumns<kDim, 2>(rows, places, grads, n, [](float* row, const float* grad, int64_t begin, int64_t end) {
#pragma GCC ivdep
#pragma GCC unroll 1  // GCC 12 unrolls 16 columns to scalar code: 38 ns a row.
    for (int64_t k = begin; k < end; ++k) {
      const float accumulator = row[kDim + k] += grad[k] * grad[k];
      row[k] -= grad[k] * 0.05f / std::sqrt(accumulator);
    }
  });
}

}  // namespace

#define FOR_DIMS(call)            \
  if (dim == 4) return call(4);   \
  if (dim == 16) return call(16); \
  if (dim == 64) return call(64); \
  if (dim == 128) return call(128);

extern "C" {

// out[i] = rows[places[i]].
void CopyRows(const float* rows, const int64_t* places, int64_t n, int64_t dim, float* out, int64_t threads) {
  InThreads(threads, n, [&](int64_t begin, int64_t end) {
#define CALL(d) CopyRows<d>(rows, places + begin, end - begin, out + begin * d)
    FOR_DIMS(CALL)
#undef CALL
  });
}

// Rows of keys, which are their own hashes; unknown ones become rows next[part] and so on, which are zero. Each of the
// `parts` has keys, index and rows of its own, and a thread.
void FindOrInsert(Entry* const* entries, int64_t mask, float* const* rows, const int64_t* const* keys, const int64_t* n,
                  int64_t* next, int64_t dim, float* const* out, int64_t parts) {
  InThreads(parts, parts, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      [&] {
#define CALL(d) FindOrInsert<d>(entries[p], mask, rows[p], keys[p], n[p], next + p, out[p])
        FOR_DIMS(CALL)
#undef CALL
      }();
    }
  });
}

// A step of Adam on rows[places], which are distinct.
void Adam(float* rows, const int64_t* places, const float* grads, int64_t n, int64_t dim, int64_t threads) {
  InThreads(threads, n, [&](int64_t begin, int64_t end) {
#define CALL(d) Adam<d>(rows, places + begin, grads + begin * d, end - begin)
    FOR_DIMS(CALL)
#undef CALL
  });
}

// A step of Adagrad, likewise.
void Adagrad(float* rows, const int64_t* places, const float* grads, int64_t n, int64_t dim, int64_t threads) {
  InThreads(threads, n, [&](int64_t begin, int64_t end) {
#define CALL(d) Adagrad<d>(rows, places + begin, grads + begin * d, end - begin)
    FOR_DIMS(CALL)
#undef CALL
  });
}

}  // extern "C"
