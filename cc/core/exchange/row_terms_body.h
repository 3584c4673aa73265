// The sums of row_terms_gpu.h as a body for the GPU: a unit is the part of a row that a thread takes. The bits are
// those of the host: of SendGradients where there are no scales, of ReceivedGradients::Sum where there are.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_ROW_TERMS_BODY_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_ROW_TERMS_BODY_H_

#include <vector>

#include "cc/core/exchange/row_terms_gpu.h"
#include "cc/core/gpu/launch.h"
#include "cc/core/gpu/pack.h"

namespace tf_booster {
namespace gpu {

struct SumTerms {
  // So many terms are asked for before the first of them is added.
  static constexpr int kAtOnce = 4;

  TFB_HOST_DEVICE void operator()(const TermsJob& job, int64_t unit) const {
    RunColumns<float>(job.packed, job.dim, unit, [&](auto v, int64_t row, int64_t column) {
      using V = decltype(v);
      const int64_t begin = job.begins == nullptr ? row : job.begins[row];
      const int64_t end = job.begins == nullptr ? row + 1 : job.begins[row + 1];
      V sum = V();
      for (int64_t k = begin; k < end; k += kAtOnce) {
        V terms[kAtOnce] = {};
        TFB_UNROLL
        for (int j = 0; j < kAtOnce; ++j) {
          if (k + j < end) terms[j] = Term<V>(job, k + j, column);
        }
        TFB_UNROLL
        for (int j = 0; j < kAtOnce; ++j) {
          if (k + j >= end) continue;
          if (k + j > begin) {
            sum += terms[j];
          } else {
            sum = terms[j];
            // As a sum that starts from 0 has it: a term of -0 stays one only where it is alone.
            if (job.scales == nullptr && end - begin > 1) sum += V();
          }
        }
      }
      const int64_t at = job.to_at == nullptr ? row * job.dim : job.to_at[row];
      StorePack(reinterpret_cast<V*>(job.to + at + column), sum);
    });
  }

 private:
  template <class V>
  TFB_HOST_DEVICE static V Term(const TermsJob& job, int64_t k, int64_t column) {
    const int64_t term = job.terms[k];
    if (term < 0) return V();
    V value = LoadPack(reinterpret_cast<const V*>(job.from + term * job.step + column));
    if (job.scales != nullptr && job.scales[k] != 1.0f) value *= job.scales[k];
    return value;
  }
};

template <class Queue>
void SumTermsOn(Queue& queue, std::vector<TermsJob> jobs) {
  for (TermsJob& job : jobs) {
    job.packed = job.aligned && IsPackAligned(job.from) && IsPackAligned(job.to);
    job.units = job.rows * UnitsOfRow<float>(job.packed, job.dim);
  }
  ForEachUnit(queue, jobs, SumTerms());
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_ROW_TERMS_BODY_H_
