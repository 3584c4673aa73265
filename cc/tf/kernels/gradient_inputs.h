// What the ops that exchange gradients of tables read alike, on the host and for the card.
#ifndef TF_BOOSTER_CC_TF_KERNELS_GRADIENT_INPUTS_H_
#define TF_BOOSTER_CC_TF_KERNELS_GRADIENT_INPUTS_H_

#include <string>
#include <vector>

#include "cc/core/exchange/gradient_exchange.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_booster {

// Inputs slots of each probe, sent of each, notes, from input `first` on. Tells the layout the numbers of segments.
tensorflow::Status ReadSentProbes(tensorflow::OpKernelContext* ctx, int first, GradientLayout* layout,
                                  std::vector<SentProbe>* probes, const int64_t** notes);

// Inputs received of each probe, from input `first` on. Tells the layout the numbers of segments.
tensorflow::Status ReadReceived(tensorflow::OpKernelContext* ctx, int first, GradientLayout* layout,
                                std::vector<MergedProbe>* probes);

// Inputs owner_codes of each probe, received of each, scales, from input `first` on.
tensorflow::Status ReadMergedProbes(tensorflow::OpKernelContext* ctx, int first, GradientLayout* layout,
                                    std::vector<MergedProbe>* probes, const float** scales);

// The notes of all ranks, [ranks, num_notes].
tensorflow::Status WriteNotes(tensorflow::OpKernelContext* ctx, const GradientLayout& layout,
                              const ReceivedGradients& received, int output);

// Attributes limits and limit_names.
class GradientLimits {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, const GradientLayout& layout);
  // All ranks see the same notes, and so fail together, before any of them has changed its tables.
  tensorflow::Status Check(const ReceivedGradients& received, int32_t ranks) const;

 private:
  std::string op_;
  std::vector<int64_t> limits_;
  std::vector<std::string> names_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_GRADIENT_INPUTS_H_
