// What kernels with the features of ParseExample or ParseExampleV2 share: attributes, inputs and the parser for them.
#ifndef TF_BOOSTER_CC_TF_KERNELS_PARSE_EXAMPLE_KERNEL_H_
#define TF_BOOSTER_CC_TF_KERNELS_PARSE_EXAMPLE_KERNEL_H_

#include <memory>
#include <mutex>

#include "cc/tf/example_parsing/example_batch_parser.h"
#include "cc/tf/kernels/parse_example_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tf_booster {

class ParseExampleKernel : public tensorflow::OpKernel {
 protected:
  using Result = tensorflow::example::Result;

  // `version`: of the op whose inputs and attributes this one has; ParseExample is 1, ParseExampleV2 2.
  ParseExampleKernel(tensorflow::OpKernelConstruction* ctx, int version);

  // The keys and defaults of this call. TensorFlow's own errors, as CheckKeys's.
  tensorflow::Status GetInputs(tensorflow::OpKernelContext* ctx, ParseInputs* inputs) const;
  // That there are as many as the attributes say.
  tensorflow::Status CheckKeys(const ParseInputs& inputs);
  // The parser of batches, or of single records; null, with an OK status, for a spec that TensorFlow must answer.
  tensorflow::Status FindParser(const ParseInputs& inputs, bool batch,
                                std::shared_ptr<const ExampleBatchParser>* parser);
  // What TensorFlow's own parser takes.
  tensorflow::Status Config(const ParseInputs& inputs, tensorflow::example::FastParseExampleConfig* config) const;
  tensorflow::Status SetFeatures(tensorflow::OpKernelContext* ctx, const Result& result) const;

  static tensorflow::thread::ThreadPool* Workers(tensorflow::OpKernelContext* ctx);

  const int version_;

 private:
  DenseAttrs dense() const;

  tensorflow::ParseExampleAttrs attrs_;
  std::once_flag counted_;
  ParserCache batch_, single_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_TF_KERNELS_PARSE_EXAMPLE_KERNEL_H_
