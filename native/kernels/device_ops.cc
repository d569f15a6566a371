// Small ops that ask the launch they run in.
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "engine/launch_context.h"
#include "engine/random_bits.h"
#include "kernels/print_format.h"
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

// Gives the seed of the next execution of the random op numbered `stream`.
tensorflow::Status NextSeed(OpKernelContext* ctx, int64_t stream, uint64_t* key,
                            uint64_t* counter) {
  LaunchContext* launch = LaunchContext::From(ctx);
  if (launch == nullptr) {
    return tensorflow::errors::Internal(
        "A random op of the device was run outside an IPU program.");
  }
  *key = launch->seed();
  *counter = CombineBits(static_cast<uint64_t>(stream),
                         static_cast<uint64_t>(launch->NextOccurrence(stream)));
  return tensorflow::OkStatus();
}

// The seed of one execution of one random op: a function of the replica's seed for the launch,
// of the op, and of how often this op ran before in the launch. So results depend neither on
// threads nor on the order in which ops happen to run.
class RandomSeedOp : public OpKernel {
 public:
  explicit RandomSeedOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream_));
  }

  void Compute(OpKernelContext* ctx) override {
    uint64_t key, counter;
    OP_REQUIRES_OK(ctx, NextSeed(ctx, stream_, &key, &counter));
    Tensor* seed = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({2}), &seed));
    seed->flat<int64_t>()(0) = static_cast<int64_t>(key);
    seed->flat<int64_t>()(1) = static_cast<int64_t>(counter);
  }

 private:
  int64_t stream_;
};

// Permutes the rows of a tensor (Fisher and Yates), with random numbers of the device. TensorFlow
// has no stateless kernel for this.
class RandomShuffleOp : public OpKernel {
 public:
  explicit RandomShuffleOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& value = ctx->input(0);
    uint64_t key, state;
    OP_REQUIRES_OK(ctx, NextSeed(ctx, stream_, &key, &state));
    state = CombineBits(key, state);
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, value.shape(), &output));
    const int64_t rows = value.dims() == 0 ? 1 : value.dim_size(0);
    if (value.NumElements() == 0) return;
    const size_t row_bytes = value.TotalBytes() / rows;
    const char* from = value.tensor_data().data();
    char* to = const_cast<char*>(output->tensor_data().data());
    std::vector<int64_t> order(rows);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t j = NextRandomBits(&state) % (i + 1);
      order[i] = order[j];
      order[j] = i;
    }
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(to + i * row_bytes, from + order[i] * row_bytes, row_bytes);
    }
  }

 private:
  int64_t stream_;
};

// Prints in one piece, so that lines of several replicas do not mix.
class PrintTensorOp : public OpKernel {
 public:
  explicit PrintTensorOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tensor_name", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("summarise_threshold", &layout_.summarise_threshold));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("edge_items", &layout_.edge_items));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_line_width", &layout_.max_line_width));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("digits", &layout_.digits));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("float_format", &layout_.float_format));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("separator", &layout_.separator));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("open_bracket", &layout_.open_bracket));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("close_bracket", &layout_.close_bracket));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& input = ctx->input(0);
    const std::string text =
        tensorflow::strings::StrCat(name_, ": ", FormatTensor(input, layout_), "\n");
    std::cerr << text << std::flush;
  }

 private:
  std::string name_;
  PrintLayout layout_;
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

REGISTER_OP("IpuRandomShuffle")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, int8, uint8, int32, int64, bool}")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Permutes the rows of a tensor with random numbers of the device.");

REGISTER_OP("IpuPrintTensor")
    .Input("input: T")
    .Attr("T: type")
    .Attr("tensor_name: string = ''")
    .Attr("summarise_threshold: int >= 0 = 1000")
    .Attr("edge_items: int >= 0 = 3")
    .Attr("max_line_width: int >= 1 = 75")
    .Attr("digits: int >= 1 = 8")
    .Attr("float_format: {'auto', 'fixed', 'none', 'scientific'} = 'auto'")
    .Attr("separator: string = ' '")
    .Attr("open_bracket: string = '['")
    .Attr("close_bracket: string = ']'")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Prints a tensor to the standard error.");

REGISTER_KERNEL_BUILDER(Name("IpuRandomSeed").Device(tensorflow::DEVICE_CPU), RandomSeedOp);
REGISTER_KERNEL_BUILDER(Name("IpuRandomShuffle").Device(tensorflow::DEVICE_CPU), RandomShuffleOp);
REGISTER_KERNEL_BUILDER(Name("IpuPrintTensor").Device(tensorflow::DEVICE_CPU), PrintTensorOp);
REGISTER_KERNEL_BUILDER(Name("IpuPrintTensor").Device("IPU").HostMemory("input"), PrintTensorOp);

}  // namespace tensorflow_ipu
