// TfBoosterPrepareLookups on the GPU, for ids that are integers. Strings and hashes of digits stay on the host.
//
// Outputs have sizes that only the card knows, so it waits once, for the counts of all lookups together; once more
// where rows without ids are not filled, since the last index tells the number of rows there.
#ifdef TF_BOOSTER_CUDA

#include <algorithm>
#include <string>
#include <vector>

#include "cc/core/pooling/prepare_gpu.h"
#include "cc/tf/kernels/gpu_memory.h"
#include "cc/tf/kernels/prepare_lookups_op.h"
#include "cc/tf/kernels/status.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

template <class Source, class Id>
class PrepareLookupsGpuOp final : public PrepareLookupsBase {
 public:
  explicit PrepareLookupsGpuOp(OpKernelConstruction* ctx) : PrepareLookupsBase(ctx) {
    for (const int64_t buckets : hash_buckets_) {
      OP_REQUIRES(ctx, buckets == 0, Invalid("hash_buckets must be 0 on the GPU; hash on the host, before"));
    }
    OP_REQUIRES(ctx, distinct_, Invalid("distinct must be true on the GPU"));
    for (const int64_t dims : leading_dims_) {
      OP_REQUIRES(ctx, dims <= gpu::kMaxLeadingDims, Invalid("leading_dims must be 4 or less on the GPU"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<Job> jobs;
    OP_REQUIRES_OK(ctx, ReadInputs(ctx, &jobs));
    int64_t prepared = 0;
    for (int i = 0; i < n_; ++i) {
      OP_REQUIRES_OK(ctx, AllocateRows(ctx, i, &jobs[i]));
      prepared += jobs[i].n + jobs[i].rows;
    }
    OP_REQUIRES(ctx, prepared <= gpu::kMaxPrepared,
                Invalid("there are " + std::to_string(prepared) + " ids and rows; the GPU takes " +
                        std::to_string(gpu::kMaxPrepared) + " at most; split the batch"));
    Tensor scratch;
    OP_REQUIRES_OK(ctx, AllocateScratch(ctx, gpu::PrepareScratchBytes(jobs, rules_), &scratch));
    std::vector<gpu::PrepareCounts> counts;
    gpu::PrepareError wrong;
    OP_REQUIRES_OK(
        ctx, GpuStatus(*this, gpu::PrepareLookups(jobs, rules_, scratch.data(), GpuStream(ctx), &counts, &wrong)));
    OP_REQUIRES(ctx, wrong.lookup < 0,
                Invalid("lookup " + std::to_string(wrong.lookup) + ": " +
                        (wrong.falls ? "segment ids are not increasing" : "a row of indices is outside of the batch")));
    for (int i = 0; i < n_; ++i) OP_REQUIRES_OK(ctx, AllocateIds(ctx, i, counts[i], &jobs[i]));
    OP_REQUIRES_OK(ctx,
                   GpuStatus(*this, gpu::FinishLookupsAsync(jobs, rules_, scratch.data(), GpuStream(ctx), counts)));
  }

 private:
  using Job = gpu::PrepareJob<Source, Id>;

  TfStatus ReadInputs(OpKernelContext* ctx, std::vector<Job>* jobs) const {
    Tensors tensors;
    std::vector<Shape> shapes;
    TF_RETURN_IF_ERROR(ReadTensors(ctx, &tensors, &shapes));
    for (int i = 0; i < n_; ++i) {
      const Shape& shape = shapes[i];
      Job job;
      job.values = tensors.values[i]->flat<Source>().data();
      job.n = shape.n;
      job.default_id = default_ids_[i];
      job.leading_dims = leading_dims_[i];
      job.rank = shape.rank;
      job.rows = shape.rows;
      job.width = shape.width;
      // An empty tensor has no memory, but null would say that there are no weights. It is not read then.
      static const float kNoWeight = 0.0f;
      if (!tensors.weights.empty()) job.weights = job.n > 0 ? tensors.weights[i]->flat<float>().data() : &kNoWeight;
      if (sparse_) job.indices = tensors.indices[i]->flat<int64_t>().data();
      if (!tensors.dense_shapes.empty()) TF_RETURN_IF_ERROR(ReadRows(i, *tensors.dense_shapes[i], &job));
      jobs->push_back(job);
    }
    return sparse_ && !rules_.fill_rows ? ReadLastRows(ctx, jobs) : tensorflow::OkStatus();
  }

  // dense_shape is in host memory.
  TfStatus ReadRows(int i, const Tensor& dense_shape, Job* job) const {
    LookupInput<Id> input;
    input.dense_shape = dense_shape.flat<int64_t>().data();
    input.indices = input.dense_shape;  // Not read: it says that ids are sparse.
    input.leading_dims = job->leading_dims;
    std::copy(input.dense_shape, input.dense_shape + job->leading_dims, job->shape);
    const Status status = RowsOf(input, rules_, &job->rows);
    if (status.ok()) return tensorflow::OkStatus();
    return ToTensorFlow(status, "PrepareLookups", "lookup " + std::to_string(i) + " of '" + name() + "'");
  }

  TfStatus ReadLastRows(OpKernelContext* ctx, std::vector<Job>* jobs) const {
    Tensor scratch;
    TF_RETURN_IF_ERROR(AllocateScratch(ctx, static_cast<int64_t>(jobs->size() * sizeof(int64_t)), &scratch));
    std::vector<int64_t> last_rows;
    TF_RETURN_IF_ERROR(GpuStatus(*this, gpu::ReadLastRows(*jobs, scratch.data(), GpuStream(ctx), &last_rows)));
    for (int i = 0; i < n_; ++i) {
      Job& job = (*jobs)[i];
      if (job.n > 0 && last_rows[i] < 0) return Invalid("lookup " + std::to_string(i) + ": segment ids must be >= 0");
      job.rows = last_rows[i] + 1;
    }
    return tensorflow::OkStatus();
  }

  TfStatus AllocateRows(OpKernelContext* ctx, int i, Job* job) const {
    if (job->rows > gpu::kMaxPrepared) {
      return Invalid("lookup " + std::to_string(i) + " has " + std::to_string(job->rows) + " rows; the GPU takes " +
                     std::to_string(gpu::kMaxPrepared) + " at most");
    }
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2 * n_ + i, {job->rows + 1}, &tensor));
    job->row_splits = tensor->flat<int32_t>().data();
    if (!rules_.fill_rows) return tensorflow::OkStatus();
    TF_RETURN_IF_ERROR(ctx->allocate_output(3 * n_ + i, {job->rows}, &tensor));
    job->row_is_empty = tensor->flat<bool>().data();
    return tensorflow::OkStatus();
  }

  TfStatus AllocateIds(OpKernelContext* ctx, int i, const gpu::PrepareCounts& counts, Job* job) const {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, {counts.distinct}, &tensor));
    job->ids = tensor->flat<Id>().data();
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, {counts.places}, &tensor));
    job->idx = tensor->flat<int32_t>().data();
    if (job->weights == nullptr) return tensorflow::OkStatus();
    TF_RETURN_IF_ERROR(ctx->allocate_output(first_weight() + i, {counts.places}, &tensor));
    job->kept_weights = tensor->flat<float>().data();
    return tensorflow::OkStatus();
  }
};

#define REGISTER_PREPARE_LOOKUPS(Source, Id)                  \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterPrepareLookups")     \
                              .Device(tensorflow::DEVICE_GPU) \
                              .HostMemory("dense_shapes")     \
                              .TypeConstraint<Source>("T")    \
                              .TypeConstraint<Id>("Tids"),    \
                          PrepareLookupsGpuOp<Source, Id>)
REGISTER_PREPARE_LOOKUPS(int32_t, int32_t);
REGISTER_PREPARE_LOOKUPS(int32_t, int64_t);
REGISTER_PREPARE_LOOKUPS(int64_t, int64_t);
#undef REGISTER_PREPARE_LOOKUPS

}  // namespace
}  // namespace tf_booster

#endif  // TF_BOOSTER_CUDA
