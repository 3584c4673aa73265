// Sums of rows in a card's memory, by one launch for some 30 of them: what a card does of an exchange (card_plans.h).
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_ROW_TERMS_GPU_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_ROW_TERMS_GPU_H_

#include <cstdint>
#include <vector>

namespace tf_booster {
namespace gpu {

// Row i, of dim floats, is the sum of terms begins[i] to before begins[i + 1], in their order, and lies at to +
// to_at[i]. Term k is scales[k] times the row at from + terms[k] * step. All arrays are in the card's memory.
struct TermsJob {
  const float* from = nullptr;
  int64_t step = 1;
  const int32_t* begins = nullptr;  // Null: row i is term i alone; a negative one is none, and gives zeros.
  const int32_t* terms = nullptr;
  const float* scales = nullptr;  // Null: 1 each.
  float* to = nullptr;
  const int32_t* to_at = nullptr;  // Null: row i is at i * dim.
  int64_t rows = 0;
  int64_t dim = 0;
  bool aligned = false;  // All rows, of terms and of sums, begin at multiples of 16 bytes, if `from` and `to` do.
  bool packed = false;   // Set by the sum itself: a unit is 16 bytes of a row, else 4.
  int64_t units = 0;     // And how many there are.
};

// Starts on `stream` and does not wait. Returns null, or CUDA's message where something could not be started.
const char* SumTermsAsync(const std::vector<TermsJob>& jobs, void* stream);

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_ROW_TERMS_GPU_H_
