// The ops of a program by which replicas share what is equal on all of them.
#include <memory>
#include <utility>
#include <vector>

#include "engine/launch_context.h"
#include "engine/uniform_exchange.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;

UniformExchange::Key KeyOf(OpKernelContext* ctx, int64_t node) {
  const tensorflow::FrameAndIter& place = ctx->frame_iter();
  return {node, place.frame_id, place.iter_id};
}

UniformExchange& ExchangeOf(OpKernelContext* ctx) {
  return *LaunchContext::From(ctx)->uniform_exchange();
}

// Stands for a value that nobody looks at.
Tensor Hollow(tensorflow::DataType type) { return Tensor(type, tensorflow::TensorShape({0})); }

// The leader has computed its inputs, or has come to it.
class PublishOp : public AsyncOpKernel {
 public:
  explicit PublishOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("node", &node_));
  }

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    UniformExchange::Values values;
    values.reserve(ctx->num_inputs());
    for (int i = 0; i < ctx->num_inputs(); ++i) values.push_back(ctx->input(i));
    ExchangeOf(ctx).Publish(KeyOf(ctx, node_), std::move(values), std::move(done));
  }

 private:
  int64_t node_;
};

// Before a write of the leader: passes the inputs of the write on when all followers are there.
class AwaitFollowersOp : public AsyncOpKernel {
 public:
  explicit AwaitFollowersOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("node", &node_));
  }

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    ExchangeOf(ctx).AwaitArrivals(
        KeyOf(ctx, node_),
        [ctx, done = std::move(done)](const Status& status, const UniformExchange::Values&) {
          if (status.ok()) {
            for (int i = 0; i < ctx->num_inputs(); ++i) ctx->set_output(i, ctx->input(i));
          } else {
            ctx->SetStatus(status);
          }
          done();
        });
  }

 private:
  int64_t node_;
};

// In the place of a follower's node that has results which others use, or that writes.
class FollowOp : public AsyncOpKernel {
 public:
  explicit FollowOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("node", &node_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("taken", &taken_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("writes", &writes_));
  }

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    const UniformExchange::Key key = KeyOf(ctx, node_);
    UniformExchange& exchange = ExchangeOf(ctx);
    const int replica = LaunchContext::From(ctx)->replica();
    if (writes_) exchange.Arrive(key, replica);
    exchange.Take(key, replica,
                  [this, ctx, done = std::move(done)](const Status& status,
                                                      const UniformExchange::Values& values) {
                    if (status.ok()) {
                      SetOutputs(ctx, values);
                    } else {
                      ctx->SetStatus(status);
                    }
                    done();
                  });
  }

 private:
  void SetOutputs(OpKernelContext* ctx, const UniformExchange::Values& values) const {
    size_t next = 0;
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      if (next < taken_.size() && taken_[next] == i) {
        ctx->set_output(i, values[next++]);
      } else {
        ctx->set_output(i, Hollow(ctx->expected_output_dtype(i)));
      }
    }
  }

  int64_t node_;
  std::vector<int> taken_;  // outputs, in their order
  bool writes_;
};

// In the place of a follower's node that nobody needs anything of.
class HollowOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      ctx->set_output(i, Hollow(ctx->expected_output_dtype(i)));
    }
  }
};

}  // namespace

REGISTER_OP("IpuPublish")
    .Input("inputs: T")
    .Attr("T: list(type) >= 0")
    .Attr("node: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Gives values that are equal on all replicas to the other replicas.");

REGISTER_OP("IpuAwaitFollowers")
    .Input("inputs: T")
    .Output("outputs: T")
    .Attr("T: list(type) >= 1")
    .Attr("node: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("Its inputs, when the other replicas have come to the write that follows.");

REGISTER_OP("IpuFollow")
    .Input("inputs: Tinputs")
    .Output("outputs: output_types")
    .Attr("Tinputs: list(type) >= 0")
    .Attr("output_types: list(type) >= 0")
    .Attr("node: int")
    .Attr("taken: list(int) >= 0")
    .Attr("writes: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("Results that replica 0 has computed, or the end of its write.");

REGISTER_OP("IpuHollow")
    .Input("inputs: Tinputs")
    .Output("outputs: output_types")
    .Attr("Tinputs: list(type) >= 0")
    .Attr("output_types: list(type) >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("Stands for results that replica 0 computes and nobody here needs.");

REGISTER_KERNEL_BUILDER(Name("IpuPublish").Device(tensorflow::DEVICE_CPU), PublishOp);
REGISTER_KERNEL_BUILDER(Name("IpuAwaitFollowers").Device(tensorflow::DEVICE_CPU), AwaitFollowersOp);
REGISTER_KERNEL_BUILDER(Name("IpuFollow").Device(tensorflow::DEVICE_CPU), FollowOp);
REGISTER_KERNEL_BUILDER(Name("IpuHollow").Device(tensorflow::DEVICE_CPU), HollowOp);

}  // namespace tensorflow_ipu
