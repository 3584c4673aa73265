// TfBoosterMultiGather and TfBoosterPartitionedGather: ResourceGather of many Variables in one op, each whole or in
// parts.
#ifndef EIGEN_USE_THREADS  // The precompiled header has it.
#define EIGEN_USE_THREADS  // Before Eigen: TensorFlow copies a Variable with it.
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/base/job_ranges.h"
#include "cc/tf/kernels/gathered_parts.h"
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
  explicit MultiGatherOp(OpKernelConstruction* ctx) : OpKernel(ctx) { OP_REQUIRES_OK(ctx, parts_.Read(ctx)); }

  void Compute(OpKernelContext* ctx) override {
    std::vector<const Tensor*> indices;
    OP_REQUIRES_OK(ctx, TensorsOf(ctx, "indices", -1, &indices));
    const int n = static_cast<int>(indices.size());
    VariableReads variables;
    OP_REQUIRES_OK(ctx, variables.LookUp(ctx, parts_.num_variables()));
    for (int i = 0; i < parts_.num_variables(); ++i) {
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
      DispatchDim(jobs[j].row_bytes % 4 == 0 ? jobs[j].row_bytes / 4 : 0, [&](auto words) {
        constexpr size_t kRowBytes = 4 * decltype(words)::value;
        const size_t row_bytes = kRowBytes > 0 ? kRowBytes : jobs[j].row_bytes;
        if (jobs[j].rule.parts == 1) {
          const char* const variable = jobs[j].variables[0];
          Gather<kRowBytes>(&jobs[j], begin, end, [=](int64_t id) { return variable + id * row_bytes; });
        } else {
          Gather<kRowBytes>(&jobs[j], begin, end, [&, row_bytes](int64_t id) {
            const RowParts::Row row = jobs[j].rule.RowOf(id);
            return jobs[j].variables[row.part] + row.row * row_bytes;
          });
        }
      });
    });
    for (int i = 0; i < n; ++i) OP_REQUIRES_OK(ctx, BadIndex(i, jobs[i], *indices[i]));
  }

 private:
  struct Job {
    const Index* indices = nullptr;
    int64_t count = 0;
    RowParts rule;
    std::vector<const char*> variables;  // By part.
    int64_t row_bytes = 0;
    char* out = nullptr;
    std::atomic<int64_t> bad{-1};
  };

  TfStatus Prepare(OpKernelContext* ctx, int i, const VariableReads& variables, const Tensor& indices, Job* job) const {
    std::vector<const Tensor*> values(parts_.parts(i));
    for (size_t p = 0; p < values.size(); ++p) {
      TF_RETURN_IF_ERROR(
          variables.Value(*this, parts_.first_variable(i) + p, tensorflow::DataTypeToEnum<T>::v(), &values[p]));
      job->variables.push_back(values[p]->tensor_data().data());
    }
    tensorflow::TensorShape shape;
    TF_RETURN_IF_ERROR(parts_.Check(*this, i, values, &job->rule, &shape));
    job->row_bytes = shape.num_elements() * static_cast<int64_t>(sizeof(T));
    tensorflow::TensorShape rows = indices.shape();
    TF_RETURN_IF_ERROR(rows.AppendShapeWithStatus(shape));
    Tensor* out = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, rows, &out));
    job->indices = indices.flat<Index>().data();
    job->count = indices.NumElements();
    job->out = const_cast<char*>(out->tensor_data().data());
    return tensorflow::OkStatus();
  }

  // kRowBytes: of a row, or 0 for any number. address(id): of the id's row.
  template <size_t kRowBytes, class Address>
  static void Gather(Job* job, int64_t begin, int64_t end, const Address& address) {
    constexpr int64_t kAhead = 8;  // A random row is a cache miss; eight are in flight.
    const size_t row_bytes = kRowBytes > 0 ? kRowBytes : job->row_bytes;
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end && Inside(*job, i + kAhead)) {
        const char* next = address(job->indices[i + kAhead]);
        for (size_t b = 0; b < std::min<size_t>(row_bytes, 256); b += 64) __builtin_prefetch(next + b);
      }
      if (!Inside(*job, i)) {
        int64_t none = -1;
        job->bad.compare_exchange_strong(none, i);
        return;
      }
      std::memcpy(job->out + i * row_bytes, address(job->indices[i]), row_bytes);
    }
  }

  static bool Inside(const Job& job, int64_t i) { return job.indices[i] >= 0 && job.indices[i] < job.rule.rows; }

  TfStatus BadIndex(int i, const Job& job, const Tensor& indices) const {
    const int64_t bad = job.bad.load();
    if (bad < 0) return tensorflow::OkStatus();
    return tensorflow::errors::InvalidArgument(
        type_string().substr(sizeof("TfBooster") - 1), " '", name(), "': element ", bad, " of indices[", i, "] ",
        indices.shape().DebugString(), " is ", job.indices[bad], ", which is not in [0, ", job.rule.rows, ")");
  }

  GatheredParts parts_;
};

#define REGISTER_MULTI_GATHER_INDEX(op, T, Index)                                                           \
  REGISTER_KERNEL_BUILDER(                                                                                  \
      Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("dtype").TypeConstraint<Index>("Tindices"), \
      MultiGatherOp<T, Index>)
#define REGISTER_MULTI_GATHER(T)                                         \
  REGISTER_MULTI_GATHER_INDEX("TfBoosterMultiGather", T, int32_t);       \
  REGISTER_MULTI_GATHER_INDEX("TfBoosterMultiGather", T, int64_t);       \
  REGISTER_MULTI_GATHER_INDEX("TfBoosterPartitionedGather", T, int32_t); \
  REGISTER_MULTI_GATHER_INDEX("TfBoosterPartitionedGather", T, int64_t)

REGISTER_MULTI_GATHER(float);
REGISTER_MULTI_GATHER(double);
REGISTER_MULTI_GATHER(Eigen::half);
REGISTER_MULTI_GATHER(tensorflow::bfloat16);
REGISTER_MULTI_GATHER(int32_t);
REGISTER_MULTI_GATHER(int64_t);

#undef REGISTER_MULTI_GATHER
#undef REGISTER_MULTI_GATHER_INDEX

}  // namespace tf_booster
