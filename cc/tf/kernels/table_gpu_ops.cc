// Tables on the card: the handle, and what a training step does with them. The rest of their ops works through the
// host's interface, with arrays in host memory (see the other table_*_op.cc).
#ifdef TF_BOOSTER_CUDA

#include <memory>
#include <vector>

#include "cc/core/hash_table/gpu/card_memory.h"
#include "cc/core/hash_table/gpu/gpu_table.h"
#include "cc/core/optimizer/table_apply_gpu.h"
#include "cc/core/unique/unique_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/gpu_table_memory.h"
#include "cc/tf/kernels/table_apply_op.h"
#include "cc/tf/kernels/table_apply_options.h"
#include "cc/tf/kernels/table_gather_op.h"
#include "cc/tf/kernels/table_handle_op.h"
#include "cc/tf/kernels/table_probe_op.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// A handle of this device is of a table that TableHandleGpuOp made.
GpuTable& TableOnCard(const TableCall& call) { return static_cast<GpuTable&>(call.table()); }

class TableHandleGpuOp final : public TableHandleOp {
 public:
  using TableHandleOp::TableHandleOp;

 protected:
  Status NewTable(OpKernelContext* ctx, const TableConfig& wanted, std::unique_ptr<HashTable>* table) const override {
    TableMemory* const memory = TableMemoryOf(ctx);
    const int64_t limit = ctx->device()->attributes().memory_limit();  // 0 where the allocator has none of its own.
    const double all = static_cast<double>(limit > 0 ? limit : CardBytes());
    memory->rows.SetLimit(static_cast<int64_t>(wanted.memory_fraction * all));
    GpuTableConfig config;
    config.allocator = &memory->all;
    config.row_allocator = &memory->rows;
    config.host_allocator = PinnedMemory();
    config.disk_folder = wanted.directory;
    if (!wanted.directory.empty()) config.host_memory = RowMemory(wanted);
    config.stream = GpuStream(ctx);
    std::unique_ptr<GpuTable> made;
    TFB_RETURN_IF_ERROR(NewGpuTable(wanted.options, &made, config));
    *table = std::move(made);
    return Status();
  }
};

// Outputs are as long as all ids together: how many are distinct stays on the card. Behind the last key fields are
// 0xFFFFFFFF, counts 0 and handles -1.
class TableProbeGpuOp final : public TableProbeOpBase {
 public:
  using TableProbeOpBase::TableProbeOpBase;

  void Compute(OpKernelContext* ctx) override {
    TableCall call(ctx);
    OP_REQUIRES_OK(ctx, call.Open());
    OP_REQUIRES_OK(ctx, call.CheckReadable());
    const int n = static_cast<int>(fields_.size());
    std::vector<gpu::UniqueJob<int64_t, int64_t>> jobs(n);
    int64_t total = 0;
    for (int i = 0; i < n; ++i) {
      const Tensor& ids = ctx->input(1 + i);
      Tensor* codes = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, ids.shape(), &codes));
      jobs[i].values = ids.flat<int64_t>().data();
      jobs[i].field = fields_[i];
      jobs[i].skip_missing = skip_missing_[i];
      jobs[i].idx = codes->flat<int64_t>().data();
      jobs[i].units = ids.NumElements();
      total += jobs[i].units;
    }
    OP_REQUIRES(ctx, total < int64_t{1} << 30,
                tensorflow::errors::InvalidArgument(call.Where(), "there are ", total,
                                                    " ids, but one probe on the GPU takes fewer than 2^30"));
    gpu::UniqueOutputs<int64_t> out;
    int64_t* handles = nullptr;
    OP_REQUIRES_OK(ctx, AllocateVector(ctx, n, total, &out.values));
    OP_REQUIRES_OK(ctx, AllocateFields(ctx, n + 1, total, &out.fields));
    OP_REQUIRES_OK(ctx, AllocateVector(ctx, n + 2, total, &out.counts));
    OP_REQUIRES_OK(ctx, AllocateVector(ctx, n + 3, total, &handles));
    if (total == 0) return;
    Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateScratch(ctx, gpu::UniqueScratchBytes(jobs), &scratch));
    void* const stream = GpuStream(ctx);
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::UniqueFindAsync(jobs, scratch.data(), stream, nullptr)));
    OP_REQUIRES_OK(ctx, GpuStatus(*this, gpu::UniqueWriteAsync(jobs, first_code_, out, scratch.data(), stream)));
    OP_REQUIRES_OK(ctx, call.Convert(TableOnCard(call).FindHandlesAsync({out.values, out.fields, total}, handles)));
  }
};

class TableGatherGpuOp final : public TableGatherOpBase {
 public:
  using TableGatherOpBase::TableGatherOpBase;

 protected:
  Status Gather(TableCall& call, const KeyBatch& keys, const RowHandle* handles,
                const std::vector<GatherPart>& parts) const override {
    return TableOnCard(call).GatherAsync({keys.keys, keys.fields, keys.size}, handles, parts);
  }
};

// Op: the names of table_apply_options.h. The floats of an optimizer are read on the card.
template <class Op, class Step>
class TableApplyGpuOp final : public TableApplyOpBase {
 public:
  explicit TableApplyGpuOp(OpKernelConstruction* ctx) : TableApplyOpBase(ctx) {
    typename Op::Options options;
    Op::Visit(options, TableApplyAttributes{ctx});
    Op::Visit(options, FlagReader{&flag_});
  }

 private:
  struct FlagReader {
    bool* flag;
    void operator()(const char*, float&) const {}
    void operator()(const char*, bool& value) const { *flag = value; }
  };

  const char* optimizer_name() const override { return Op::kOptimizer; }

  tensorflow::Status Apply(OpKernelContext* ctx, TableCall& call, const SparseApplyBatch& batch,
                           int first) const override {
    gpu::StepInputs<float> inputs = {};
    for (int i = 0; i < Step::kScalars; ++i) {
      TF_RETURN_IF_ERROR(call.CheckScalar(ctx->input(first + i), "a hyperparameter"));
      inputs.scalars[i] = ctx->input(first + i).flat<float>().data();
    }
    inputs.flag = flag_;
    return call.Convert(
        gpu::TableApplyAsync<Step>(TableOnCard(call), batch, inputs, &TableMemoryOf(ctx)->all, GpuStream(ctx)));
  }

  bool flag_ = false;  // The op's bool attribute.
};

REGISTER_KERNEL_BUILDER(Name("TfBoosterHashTable").Device(tensorflow::DEVICE_GPU).HostMemory("table"),
                        TableHandleGpuOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableProbe").Device(tensorflow::DEVICE_GPU).HostMemory("table"),
                        TableProbeGpuOp);
REGISTER_KERNEL_BUILDER(Name("TfBoosterTableGather").Device(tensorflow::DEVICE_GPU).HostMemory("table"),
                        TableGatherGpuOp);

#define REGISTER_APPLY(name)                                                                                    \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterTableApply" #name).Device(tensorflow::DEVICE_GPU).HostMemory("table"), \
                          TableApplyGpuOp<name##Apply, gpu::table_step::name>)
TFB_FOR_EACH_TABLE_APPLY(REGISTER_APPLY);
#undef REGISTER_APPLY

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
