#include "cc/core/products/gathered_products.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cc/core/products/small_products.h"
#include "cc/core/products/turned.h"

namespace tf_booster {
namespace {

// A matrix of one row or column is stored as its transpose is.
void StoreAsIs(int64_t height, int64_t width, MatrixRows* side) {
  if (height == 1 || width == 1) side->transposed = false;
}

// The rows of the gathered side that are read, and where among them each is.
struct ReadRows {
  std::vector<int64_t> read, place;

  ReadRows(const int64_t* rows, int64_t count) : read(rows, rows + count) {
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    place.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      place.push_back(std::lower_bound(read.begin(), read.end(), rows[i]) - read.begin());
    }
  }
};

// Of products whose right side is gathered, and is not transposed.
class Plan {
 public:
  explicit Plan(const GatheredProducts& p)
      : p_(p),
        inner_(static_cast<int64_t>(p.left.inner.size())),
        left_row_(p.other_has_one_row ? 0 : p.left.matrices * p.m * p.k),
        out_row_(inner_ * p.m * p.n) {}

  std::vector<Product> Products() const {
    std::vector<Product> products;
    for (int64_t i = 0; i < p_.count;) {
      // Rows of the batch beside each other that read one matrix are one product, where their rows lie evenly.
      int64_t end = i + 1;
      const bool even = !p_.left.transposed && left_row_ > 0 && (p_.m == 1 || (inner_ == 1 && p_.left.matrices == 1));
      while (even && end < p_.count && p_.rows[end] == p_.rows[i]) ++end;
      for (int64_t h = 0; h < inner_; ++h) products.push_back(Of(i, end - i, h));
      i = end;
    }
    return products;
  }

 private:
  Product Of(int64_t i, int64_t rows, int64_t h) const {
    Product product;
    product.m = rows * p_.m;
    product.n = p_.n;
    product.k = p_.k;
    product.a = p_.left.data + i * left_row_ + p_.left.inner[h] * p_.m * p_.k;
    product.b = p_.right.data + (p_.rows[i] * p_.right.matrices + p_.right.inner[h]) * p_.k * p_.n;
    product.a_transposed = p_.left.transposed;
    product.c = p_.c + i * out_row_ + h * p_.m * p_.n;
    if (p_.m == 1) {
      product.a_step = left_row_;
      product.c_step = out_row_;
    }
    return product;
  }

  const GatheredProducts& p_;
  const int64_t inner_, left_row_, out_row_;
};

// Turns each row that is read once, for all rows of the batch that read it.
void MultiplyTurned(GatheredProducts p, const ReadRows& rows, ParallelFor& pf) {
  const int64_t size = p.k * p.n, matrices = static_cast<int64_t>(rows.read.size()) * p.right.matrices;
  const std::unique_ptr<float[]> turned(new float[matrices * size]);
  pf.Run(matrices, size / 2 + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = rows.read[i / p.right.matrices] * p.right.matrices + i % p.right.matrices;
      TurnColumns(p.right.data + from * size, p.k, p.n, 0, p.n, turned.get() + i * size);
    }
  });
  p.right.data = turned.get();
  p.right.transposed = false;
  p.rows = rows.place.data();
  Multiply(Plan(p).Products(), pf);
}

// Turns a row for each run of rows of the batch that read it, into memory that stays in the caches: turned rows for a
// whole batch of users, none of whom repeats, took 2.5 times as long as the copy that is saved.
void MultiplyTurningRuns(const GatheredProducts& p, ParallelFor& pf) {
  const int64_t size = p.k * p.n, inner = static_cast<int64_t>(p.left.inner.size());
  pf.Run(p.count, p.right.matrices * size + 200, [&](int64_t begin, int64_t end) {
    std::vector<float> turned(p.right.matrices * size);
    std::vector<int64_t> zeros;
    SerialFor serial;
    while (begin < end) {
      int64_t last = begin + 1;
      while (last < end && p.rows[last] == p.rows[begin]) ++last;
      for (int64_t i = 0; i < p.right.matrices; ++i) {
        const float* const from = p.right.data + (p.rows[begin] * p.right.matrices + i) * size;
        TurnColumns(from, p.k, p.n, 0, p.n, turned.data() + i * size);
      }
      GatheredProducts run = p;
      run.right.data = turned.data();
      run.right.transposed = false;
      zeros.resize(last - begin);
      run.rows = zeros.data();
      run.count = last - begin;
      if (!p.other_has_one_row) run.left.data += begin * p.left.matrices * p.m * p.k;
      run.c += begin * inner * p.m * p.n;
      Multiply(Plan(run).Products(), serial);
      begin = last;
    }
  });
}

void MultiplyRightGathered(const GatheredProducts& p, ParallelFor& pf) {
  if (!p.right.transposed) return Multiply(Plan(p).Products(), pf);
  const ReadRows rows(p.rows, p.count);
  constexpr size_t kOften = 4;  // Reads of a row for which turning it once and for all pays.
  rows.read.size() * kOften <= rows.place.size() ? MultiplyTurned(p, rows, pf) : MultiplyTurningRuns(p, pf);
}

// Each by itself: a gathered matrix times another one of several columns.
void MultiplyLeftGathered(const GatheredProducts& p, ParallelFor& pf) {
  const int64_t inner = static_cast<int64_t>(p.left.inner.size());
  std::vector<Product> products;
  for (int64_t i = 0; i < p.count; ++i) {
    const int64_t other = p.other_has_one_row ? 0 : i;
    for (int64_t h = 0; h < inner; ++h) {
      Product product;
      product.m = p.m;
      product.n = p.n;
      product.k = p.k;
      product.a = p.left.data + (p.rows[i] * p.left.matrices + p.left.inner[h]) * p.m * p.k;
      product.b = p.right.data + (other * p.right.matrices + p.right.inner[h]) * p.k * p.n;
      product.a_transposed = p.left.transposed;
      product.b_transposed = p.right.transposed;
      product.c = p.c + (i * inner + h) * p.m * p.n;
      products.push_back(product);
    }
  }
  Multiply(products, pf);
}

}  // namespace

void MultiplyGathered(const GatheredProducts& products, ParallelFor& pf) {
  GatheredProducts p = products;
  if (p.left_is_gathered && p.n == 1) {
    // A matrix times a column is a row times its transpose.
    std::swap(p.left, p.right);
    std::swap(p.m, p.n);
    p.left.transposed = !p.left.transposed;
    p.right.transposed = !p.right.transposed;
    p.left_is_gathered = false;
  }
  StoreAsIs(p.m, p.k, &p.left);
  StoreAsIs(p.k, p.n, &p.right);
  p.left_is_gathered ? MultiplyLeftGathered(p, pf) : MultiplyRightGathered(p, pf);
}

}  // namespace tf_booster
