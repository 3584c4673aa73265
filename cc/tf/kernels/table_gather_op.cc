// TfBoosterTableGather on the host.
#include "cc/tf/kernels/table_gather_op.h"

namespace tf_booster {

class TableGatherOp final : public TableGatherOpBase {
 public:
  using TableGatherOpBase::TableGatherOpBase;

 protected:
  Status Gather(TableCall& call, const KeyBatch& keys, const RowHandle* handles,
                const std::vector<GatherPart>& parts) const override {
    return call.table().Gather(keys, handles, parts, call.parallel_for());
  }
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterTableGather").Device(tensorflow::DEVICE_CPU), TableGatherOp);

}  // namespace tf_booster
