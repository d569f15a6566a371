// Small ops that ask the launch they run in.
#include <cstdint>
#include <iostream>
#include <string>

#include "engine/launch_context.h"
#include "engine/random_bits.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The seed of one execution of one random op: a function of the replica's seed for the launch,
// of the op, and of how often this op ran before in the launch. So results depend neither on
// threads nor on the order in which ops happen to run.
class RandomSeedOp : public OpKernel {
 public:
  explicit RandomSeedOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream_));
  }

  void Compute(OpKernelContext* ctx) override {
    LaunchContext* launch = LaunchContext::From(ctx);
    OP_REQUIRES(ctx, launch != nullptr,
                tensorflow::errors::Internal("A device random seed was asked for outside an "
                                             "IPU program."));
    Tensor* seed = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({2}), &seed));
    auto values = seed->flat<int64_t>();
    values(0) = static_cast<int64_t>(launch->seed());
    values(1) = static_cast<int64_t>(
        CombineBits(static_cast<uint64_t>(stream_),
                    static_cast<uint64_t>(launch->NextOccurrence(stream_))));
  }

 private:
  int64_t stream_;
};

// Prints in one piece, so that lines of several replicas do not mix.
class PrintTensorOp : public OpKernel {
 public:
  explicit PrintTensorOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tensor_name", &name_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& input = ctx->input(0);
    const std::string text = tensorflow::strings::StrCat(
        name_, ": ", input.SummarizeValue(input.NumElements(), /*print_v2=*/true), "\n");
    std::cerr << text << std::flush;
  }

 private:
  std::string name_;
};

}  // namespace

REGISTER_OP("IpuRandomSeed")
    .Output("seed: int64")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(2));
      return tensorflow::OkStatus();
    })
    .Doc("Gives the seed for the next execution of a random op of the device.");

REGISTER_OP("IpuPrintTensor")
    .Input("input: T")
    .Attr("T: type")
    .Attr("tensor_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Prints a tensor to the standard error.");

REGISTER_KERNEL_BUILDER(Name("IpuRandomSeed").Device(tensorflow::DEVICE_CPU), RandomSeedOp);
REGISTER_KERNEL_BUILDER(Name("IpuPrintTensor").Device(tensorflow::DEVICE_CPU), PrintTensorOp);
REGISTER_KERNEL_BUILDER(Name("IpuPrintTensor").Device("IPU").HostMemory("input"), PrintTensorOp);

}  // namespace tensorflow_ipu
