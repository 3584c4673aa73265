// TfBoosterMultiGather: ResourceGather of many Variables in one op.
#ifndef EIGEN_USE_THREADS  // The precompiled header has it.
#define EIGEN_USE_THREADS  // Before Eigen: TensorFlow copies a Variable with it.
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/pooling/job_ranges.h"
#include "cc/tf/kernels/lookup_inputs.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "cc/tf/kernels/variable_reads.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/kernels/training_op_helpers.h"

namespace tf_booster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using TfStatus = tensorflow::Status;

template <class T, class Index>
class MultiGatherOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> indices;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "indices", -1, &indices));
    const int n = static_cast<int>(indices.size());
    VariableReads variables;
    OP_REQUIRES_OK(ctx, variables.LookUp(ctx, n));
    for (int i = 0; i < n; ++i) {
      // From now on dense reads copy, so that sparse updates need not: as ResourceGather does.
      OP_REQUIRES_OK(ctx,
                     (tensorflow::EnsureSparseVariableAccess<Eigen::ThreadPoolDevice, T>(ctx, variables.variable(i))));
    }
    variables.Lock();
    std::vector<Job> jobs(n);
    std::vector<int64_t> units;
    int64_t total_ns = 0;
    for (int i = 0; i < n; ++i) {
      OP_REQUIRES_OK(ctx, Prepare(ctx, i, variables, *indices[i], &jobs[i]));
      units.push_back(jobs[i].count);
      total_ns += jobs[i].count * (5 + jobs[i].row_bytes / 12);
    }
    TfParallelFor pf(ctx);
    JobRanges(units, total_ns).Run(pf, [&](size_t j, int64_t begin, int64_t end) {
      // In words of 4 bytes: rows of common widths are copied without a call.
      DispatchDim(jobs[j].row_bytes % 4 == 0 ? jobs[j].row_bytes / 4 : 0,
                  [&](auto words) { Gather<4 * decltype(words)::value>(&jobs[j], begin, end); });
    });
    for (int i = 0; i < n; ++i) OP_REQUIRES_OK(ctx, BadIndex(i, jobs[i], *indices[i]));
  }

 private:
  struct Job {
    const Index* indices = nullptr;
    int64_t count = 0;
    const char* variable = nullptr;
    int64_t rows = 0;
    int64_t row_bytes = 0;
    char* out = nullptr;
    std::atomic<int64_t> bad{-1};
  };

  TfStatus Prepare(OpKernelContext* ctx, int i, const VariableReads& variables, const Tensor& indices, Job* job) const {
    const Tensor* value = nullptr;
    TF_RETURN_IF_ERROR(variables.Value(*this, i, tensorflow::DataTypeToEnum<T>::v(), &value));
    const Tensor& params = *value;
    if (params.dims() < 1) return tensorflow::errors::InvalidArgument("params must be at least 1 dimensional");
    tensorflow::TensorShape shape = indices.shape();
    for (int d = 1; d < params.dims(); ++d) TF_RETURN_IF_ERROR(shape.AddDimWithStatus(params.dim_size(d)));
    Tensor* out = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, shape, &out));
    job->indices = indices.flat<Index>().data();
    job->count = indices.NumElements();
    job->rows = params.dim_size(0);
    job->row_bytes = 1;
    for (int d = 1; d < params.dims(); ++d) job->row_bytes *= params.dim_size(d);
    job->row_bytes *= sizeof(T);
    job->variable = params.tensor_data().data();
    job->out = const_cast<char*>(out->tensor_data().data());
    return tensorflow::OkStatus();
  }

  // kRowBytes: of a row, or 0 for any number.
  template <size_t kRowBytes>
  static void Gather(Job* job, int64_t begin, int64_t end) {
    constexpr int64_t kAhead = 8;  // A random row is a cache miss; eight are in flight.
    const size_t row_bytes = kRowBytes > 0 ? kRowBytes : job->row_bytes;
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end && Inside(*job, i + kAhead)) {
        const char* next = job->variable + job->indices[i + kAhead] * row_bytes;
        for (size_t b = 0; b < std::min<size_t>(row_bytes, 256); b += 64) __builtin_prefetch(next + b);
      }
      if (!Inside(*job, i)) {
        int64_t none = -1;
        job->bad.compare_exchange_strong(none, i);
        return;
      }
      std::memcpy(job->out + i * row_bytes, job->variable + job->indices[i] * row_bytes, row_bytes);
    }
  }

  static bool Inside(const Job& job, int64_t i) { return job.indices[i] >= 0 && job.indices[i] < job.rows; }

  TfStatus BadIndex(int i, const Job& job, const Tensor& indices) const {
    const int64_t bad = job.bad.load();
    if (bad < 0) return tensorflow::OkStatus();
    return tensorflow::errors::InvalidArgument("MultiGather '", name(), "': element ", bad, " of indices[", i, "] ",
                                               indices.shape().DebugString(), " is ", job.indices[bad],
                                               ", which is not in [0, ", job.rows, ")");
  }
};

#define REGISTER_MULTI_GATHER_INDEX(T, Index)                     \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterMultiGather")            \
                              .Device(tensorflow::DEVICE_CPU)     \
                              .TypeConstraint<T>("dtype")         \
                              .TypeConstraint<Index>("Tindices"), \
                          MultiGatherOp<T, Index>)
#define REGISTER_MULTI_GATHER(T)           \
  REGISTER_MULTI_GATHER_INDEX(T, int32_t); \
  REGISTER_MULTI_GATHER_INDEX(T, int64_t)

REGISTER_MULTI_GATHER(float);
REGISTER_MULTI_GATHER(double);
REGISTER_MULTI_GATHER(Eigen::half);
REGISTER_MULTI_GATHER(tensorflow::bfloat16);
REGISTER_MULTI_GATHER(int32_t);
REGISTER_MULTI_GATHER(int64_t);

#undef REGISTER_MULTI_GATHER
#undef REGISTER_MULTI_GATHER_INDEX

}  // namespace tf_booster
