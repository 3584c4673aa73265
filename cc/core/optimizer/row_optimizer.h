// An optimizer as the host sees it: applies one step to rows [embedding | slot 0 | slot 1 | …] of (1 + num_slots) * dim
// floats. The formulas themselves are one a file beside this one, element-wise and shared with the device.
#ifndef TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_OPTIMIZER_H_
#define TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_OPTIMIZER_H_

#include <cstdint>
#include <memory>

#include "cc/core/base/lines_ahead.h"
#include "cc/core/optimizer/adagrad.h"
#include "cc/core/optimizer/adagrad_v2.h"
#include "cc/core/optimizer/adam.h"
#include "cc/core/optimizer/centered_rmsprop.h"
#include "cc/core/optimizer/ftrl.h"
#include "cc/core/optimizer/gradient_descent.h"
#include "cc/core/optimizer/keras_momentum.h"
#include "cc/core/optimizer/momentum.h"
#include "cc/core/optimizer/rmsprop.h"

namespace tf_booster {

// Rows are fetched at most so far ahead.
constexpr int64_t kMaxRowsAhead = 40;

// rows[i] has the gradient grads[i] (dim floats), for i < size.
struct RowsToApply {
  float* const* rows = nullptr;
  const float* const* grads = nullptr;
  int64_t size = 0;
  int64_t following = 0;  // Rows and gradients behind these, of the next call: they are fetched only.
  bool first = true;      // No call before had these as its following.
  LinesAhead ahead;       // One is fetched with each row.
};

class RowOptimizer {
 public:
  virtual ~RowOptimizer() = default;

  // As in the op's name TfBoosterTableApply<name>, for error messages.
  virtual const char* name() const = 0;
  virtual int num_slots() const = 0;

  // One step on each row. Fetches rows and gradients ahead of itself. Any thread; the rows are the caller's to guard.
  virtual void ApplyRows(const RowsToApply& batch, int64_t dim) const = 0;
};

std::unique_ptr<RowOptimizer> MakeRowOptimizer(const GradientDescentOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const MomentumOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const KerasMomentumOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const AdagradOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const AdagradV2Options& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const AdamOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const FtrlOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const RMSPropOptions& options);
std::unique_ptr<RowOptimizer> MakeRowOptimizer(const CenteredRMSPropOptions& options);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_OPTIMIZER_ROW_OPTIMIZER_H_
