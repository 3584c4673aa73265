// The card's dots of pairs, run by the host, against sums in double.
#include "cc/core/products/pair_dots_body.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

using gpu::Array;

Array<float> Numbers(int64_t n, uint64_t seed) {
  Array<float> numbers(n);
  for (int64_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(Mix64(seed * 1000003 + i) % 2001) / 1000 - 1;
  return numbers;
}

void OnHost(const gpu::PairDotsJob& job, int threads) {
  gpu::HostQueue queue(threads);
  gpu::Scratch measure(nullptr);
  gpu::PairDotsOnQueue<gpu::HostQueue>(nullptr, job, &measure);
  std::vector<char> memory(measure.used() + 256);
  gpu::Scratch scratch(memory.data());
  gpu::PairDotsOnQueue(&queue, job, &scratch);
}

void Run(const gpu::PairDotsJob& job) {
#if defined(__CUDACC__)
  Array<char> scratch(gpu::PairDotsScratchBytes(job));
  EXPECT_TRUE(gpu::PairDotsAsync(job, scratch.data(), nullptr) == nullptr);
  gpu::WaitForCard();
#else
  OnHost(job, 3);
#endif
}

// One thread of the host writes the same bits.
void ExpectHostsBits(const gpu::PairDotsJob& job, const std::vector<Array<float>*>& written) {
  std::vector<Array<float>> got;
  for (Array<float>* array : written) {
    got.push_back(*array);
    std::fill(array->begin(), array->end(), -7.0f);
  }
  OnHost(job, 1);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(std::memcmp(got[i].data(), written[i]->data(), got[i].size() * sizeof(float)) == 0);
  }
}

// shift: how far the vectors are from a multiple of 16 bytes, and how many columns stand before the dots, and behind.
void Compare(int64_t rows, int64_t dim, const std::vector<int64_t>& widths, const std::vector<int64_t>& pairs,
             int64_t shift) {
  std::vector<Array<float>> values, gradients;
  gpu::PairDotsJob job;
  for (const int64_t width : widths) {
    values.push_back(Numbers(rows * width * dim + shift, values.size()));
    gradients.emplace_back(rows * width * dim + 1, -7.0f);
  }
  std::vector<const float*> field_of;
  std::vector<int64_t> stride_of;
  for (size_t p = 0; p < widths.size(); ++p) {
    job.parts.push_back({values[p].data() + shift, widths[p]});
    for (int64_t f = 0; f < widths[p]; ++f) {
      field_of.push_back(values[p].data() + shift + f * dim);
      stride_of.push_back(widths[p] * dim);
    }
  }
  const int64_t fields = static_cast<int64_t>(field_of.size()), size = static_cast<int64_t>(pairs.size());
  const int64_t step = size + 2 * shift;
  Array<float> dots(rows * step + 1, -7.0f);
  job.pairs = &pairs;
  job.rows = rows;
  job.dim = dim;
  job.dots = {dots.data() + shift, step};
  Run(job);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t p = 0; p < size; ++p) {
      const int64_t i = pairs[p] / fields, j = pairs[p] % fields;
      double want = 0;
      for (int64_t c = 0; c < dim; ++c)
        want += double{field_of[i][r * stride_of[i] + c]} * field_of[j][r * stride_of[j] + c];
      EXPECT_TRUE(std::abs(dots[r * step + shift + p] - want) < 1e-5 * static_cast<double>(dim));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t s = 0; s < shift; ++s) {
      EXPECT_EQ(dots[r * step + s], -7.0f);
      EXPECT_EQ(dots[r * step + shift + size + s], -7.0f);
    }
  }
  EXPECT_EQ(dots.back(), -7.0f);
  ExpectHostsBits(job, {&dots});

  Array<float> upstream = Numbers(rows * step, 99);
  job.dots = {upstream.data() + shift, step};
  for (size_t p = 0; p < widths.size(); ++p) job.gradients.push_back({gradients[p].data(), widths[p]});
  Run(job);
  int64_t field = 0;
  for (size_t p = 0; p < widths.size(); ++p) {
    for (int64_t f = 0; f < widths[p]; ++f, ++field) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < dim; ++c) {
          double want = 0;
          for (int64_t k = 0; k < size; ++k) {
            const int64_t i = pairs[k] / fields, j = pairs[k] % fields;
            const double g = upstream[r * step + shift + k];
            if (i == field) want += g * field_of[j][r * stride_of[j] + c];
            if (j == field) want += g * field_of[i][r * stride_of[i] + c];
          }
          EXPECT_TRUE(std::abs(gradients[p][(r * widths[p] + f) * dim + c] - want) <
                      1e-5 * static_cast<double>(fields));
        }
      }
    }
    EXPECT_EQ(gradients[p].back(), -7.0f);
  }
  std::vector<Array<float>*> written;
  for (auto& gradient : gradients) written.push_back(&gradient);
  ExpectHostsBits(job, written);
}

TEST(DotsAndGradients) {
  for (const int64_t shift : {0, 1}) {
    for (const int64_t dim : {1, 4, 7, 16, 130}) {
      Compare(5, dim, {1, 1, 3}, {5, 10, 11, 15, 21}, shift);  // Below the diagonal, some of them,
      Compare(70, dim, {2, 2}, {0, 1, 5, 15, 12, 3}, shift);   // and on it and above, in any order.
    }
  }
}

TEST(NoRowsAndManyFields) {
  Compare(0, 8, {1, 2}, {1, 2}, 0);
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < i; ++j) pairs.push_back(i * 40 + j);
  }
  Compare(3, 12, std::vector<int64_t>(40, 1), pairs, 0);
}

}  // namespace
}  // namespace tf_booster
