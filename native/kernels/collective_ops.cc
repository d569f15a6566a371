// The collectives that move data between replicas, and what replicas can know of each other.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/collective_kernel.h"
#include "kernels/split_collective_ops.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

const char* Bytes(const Tensor& tensor) { return static_cast<const char*>(tensor.data()); }
char* Bytes(Tensor* tensor) { return static_cast<char*>(tensor->data()); }

void SetScalar(OpKernelContext* ctx, int32_t value) {
  Tensor* output = nullptr;
  OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &output));
  output->scalar<int32_t>()() = value;
}

class ReplicationIndexOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  bool IsExpensive() override { return false; }
  void Compute(OpKernelContext* ctx) override {
    const LaunchContext* launch = LaunchContext::From(ctx);
    SetScalar(ctx, launch == nullptr ? 0 : launch->global_replica());
  }
};

class ReplicationFactorOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  bool IsExpensive() override { return false; }
  void Compute(OpKernelContext* ctx) override {
    const LaunchContext* launch = LaunchContext::From(ctx);
    SetScalar(ctx, launch == nullptr ? 1 : launch->total_replicas());
  }
};

class AssumeEqualOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  bool IsExpensive() override { return false; }
  void Compute(OpKernelContext* ctx) override { ctx->set_output(0, ctx->input(0)); }
};

// A buffer with the parts one after the other.
class GatheredParts : public Accumulation {
 public:
  explicit GatheredParts(int size) : size_(size) {}

  Status Add(Part part, OpKernelContext* ctx) override {
    const Tensor& tensor = part.tensor;
    if (added_ == 0) {
      TensorShape shape = tensor.shape();
      shape.InsertDim(0, size_);
      TF_RETURN_IF_ERROR(ctx->allocate_temp(tensor.dtype(), shape, &gathered_));
    }
    const size_t bytes = tensor.TotalBytes();
    if (bytes > 0) std::memcpy(Bytes(&gathered_) + added_ * bytes, Bytes(tensor), bytes);
    ++added_;
    return tensorflow::OkStatus();
  }

  Status Give(int /*member*/, OpKernelContext* ctx) const override {
    ctx->set_output(0, gathered_);
    return tensorflow::OkStatus();
  }

 private:
  const int size_;
  int added_ = 0;
  Tensor gathered_;
};

// The first part. The others are not used.
class BroadcastPart : public Accumulation {
 public:
  Status Add(Part part, OpKernelContext* /*ctx*/) override {
    if (added_++ == 0) first_ = std::move(part.tensor);
    return tensorflow::OkStatus();
  }

  Status Give(int /*member*/, OpKernelContext* ctx) const override {
    ctx->set_output(0, first_);
    return tensorflow::OkStatus();
  }

 private:
  int added_ = 0;
  Tensor first_;
};

// All members get the same buffer, with the inputs one after the other.
class AllGatherOp : public CollectiveKernel {
 public:
  explicit AllGatherOp(OpKernelConstruction* ctx) : CollectiveKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replication_factor", &group_size_));
  }

  Status Run(Inputs inputs, int /*first*/, Members members) const override {
    TensorShape shape = inputs[0].shape();
    shape.InsertDim(0, inputs.size());
    Tensor gathered;
    TF_RETURN_IF_ERROR(members[0]->allocate_temp(inputs[0].dtype(), shape, &gathered));
    const size_t size = inputs[0].TotalBytes();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (size > 0) std::memcpy(Bytes(&gathered) + i * size, Bytes(inputs[i]), size);
    }
    for (OpKernelContext* member : members) member->set_output(0, gathered);
    return tensorflow::OkStatus();
  }

  std::unique_ptr<Accumulation> Begin(int size) const override {
    return std::make_unique<GatheredParts>(size);
  }
};

// Replica 0 of each group gives its tensor to all.
class BroadcastOp : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  Status Run(Inputs inputs, int /*first*/, Members members) const override {
    for (OpKernelContext* member : members) member->set_output(0, inputs[0]);
    return tensorflow::OkStatus();
  }

  std::unique_ptr<Accumulation> Begin(int /*size*/) const override {
    return std::make_unique<BroadcastPart>();
  }

  Extent Needed(const Tensor& given, int from, MemberRange to, int size) const override {
    return from == 0 ? CollectiveKernel::Needed(given, from, to, size) : Extent();
  }
};

// The dimensions of a tensor in which all_to_all moves blocks: `outer` rows of `count` blocks, each
// of `width` bytes.
struct Blocks {
  Blocks(const TensorShape& shape, int dimension, int64_t element_bytes)
      : outer(1), count(shape.dim_size(dimension)), width(element_bytes) {
    for (int i = 0; i < dimension; ++i) outer *= shape.dim_size(i);
    for (int i = dimension + 1; i < shape.dims(); ++i) width *= shape.dim_size(i);
  }
  int64_t outer, count, width;
};

class AllToAllOp : public CollectiveKernel {
 public:
  explicit AllToAllOp(OpKernelConstruction* ctx) : CollectiveKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replication_factor", &group_size_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("split_dimension", &split_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("concat_dimension", &concat_));
  }

  Status Run(Inputs inputs, int first, Members members) const override {
    TF_RETURN_IF_ERROR(Check(inputs[0].shape(), inputs.size()));
    TensorShape part = inputs[0].shape();
    part.set_dim(split_, part.dim_size(split_) / inputs.size());
    TensorShape shape = part;
    shape.set_dim(concat_, shape.dim_size(concat_) * inputs.size());
    for (size_t to = 0; to < members.size(); ++to) {
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(members[to]->allocate_output(0, shape, &output));
      for (size_t from = 0; from < inputs.size(); ++from) {
        CopyPart(inputs[from], first + to, part, from, output);
      }
    }
    return tensorflow::OkStatus();
  }

  Extent Needed(const Tensor& given, int /*from*/, MemberRange to, int size) const override {
    // What cannot be split is an error in `Run`.
    if (!Check(given.shape(), size).ok()) return {};
    const Blocks source(given.shape(), split_, tensorflow::DataTypeSize(given.dtype()));
    const int64_t run = source.count / size * source.width;
    return {to.begin * run, to.size() * run, source.count * source.width, source.outer};
  }

 private:
  Status Check(const TensorShape& shape, int64_t replicas) const {
    if (split_ < shape.dims() && concat_ < shape.dims() && shape.dim_size(split_) % replicas == 0) {
      return tensorflow::OkStatus();
    }
    return tensorflow::errors::InvalidArgument(
        name(), " cannot split dimension ", split_, " of a tensor of shape ", shape.DebugString(),
        " into ", replicas, " parts and concatenate them along dimension ", concat_,
        ". Both have to exist, and the first be a multiple of the number of replicas.");
  }

  // Copies block `to` of `input`, which has the shape `part`, to place `from` of `output`.
  void CopyPart(const Tensor& input, int64_t to, const TensorShape& part, int64_t from,
                Tensor* output) const {
    if (part.num_elements() == 0) return;
    const int64_t element = tensorflow::DataTypeSize(input.dtype());
    const Blocks source(input.shape(), split_, element);
    const Blocks target(output->shape(), concat_, element);
    const int64_t run = part.dim_size(split_) * source.width;    // one row of the block
    const int64_t room = part.dim_size(concat_) * target.width;  // one row of its place
    // Both rows divide the block without remainder, so it goes over in pieces of the smaller one.
    const int64_t piece = std::min(run, room);
    const int64_t total = part.num_elements() * element;
    for (int64_t done = 0; done < total; done += piece) {
      const char* read =
          Bytes(input) + (done / run) * source.count * source.width + to * run + done % run;
      char* write =
          Bytes(output) + (done / room) * target.count * target.width + from * room + done % room;
      std::memcpy(write, read, piece);
    }
  }

  int split_, concat_;
};

Status AllGatherShape(InferenceContext* c) {
  int replicas;
  TF_RETURN_IF_ERROR(c->GetAttr("replication_factor", &replicas));
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(replicas), c->input(0), &shape));
  c->set_output(0, shape);
  return tensorflow::OkStatus();
}

Status AllToAllShape(InferenceContext* c) {
  int replicas, split, concat;
  TF_RETURN_IF_ERROR(c->GetAttr("replication_factor", &replicas));
  TF_RETURN_IF_ERROR(c->GetAttr("split_dimension", &split));
  TF_RETURN_IF_ERROR(c->GetAttr("concat_dimension", &concat));
  if (!c->RankKnown(c->input(0))) return tensorflow::shape_inference::UnknownShape(c);
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), std::max(split, concat) + 1, &shape));
  DimensionHandle size;
  TF_RETURN_IF_ERROR(c->Divide(c->Dim(shape, split), replicas, /*evenly_divisible=*/true, &size));
  TF_RETURN_IF_ERROR(c->ReplaceDim(shape, split, size, &shape));
  TF_RETURN_IF_ERROR(c->Multiply(c->Dim(shape, concat), replicas, &size));
  TF_RETURN_IF_ERROR(c->ReplaceDim(shape, concat, size, &shape));
  c->set_output(0, shape);
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("IpuReplicationIndex")
    .Output("index: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("The index of the replica that runs the op.");

REGISTER_OP("IpuReplicationFactor")
    .Output("output: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("The number of replicas that run the program.");

REGISTER_OP("IpuAssumeEqualAcrossReplicas")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Its input, which the program promises to be equal on all replicas.");

#define IPU_TYPES "{half, bfloat16, float, int8, uint8, int32, uint32, int64, bool}"

REGISTER_OP("IpuReplicaBroadcast")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " IPU_TYPES)
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The tensor of replica 0, on all replicas.");

REGISTER_OP("IpuAllGather")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " IPU_TYPES)
    .Attr("replication_factor: int >= 1")
    .SetIsStateful()
    .SetShapeFn(AllGatherShape)
    .Doc("The tensors of all replicas of a group, stacked.");

REGISTER_OP("IpuReplicaBroadcastStart")
    .Input("input: T")
    .Output("meeting: int64")
    .Attr("takes: bool = true")
    .Attr("T: " IPU_TYPES)
    .SetIsStateful()
    .SetShapeFn(MeetingShape)
    .Doc("Gives a replica's part of IpuReplicaBroadcast; IpuCollectiveFinish takes the result.");

REGISTER_OP("IpuAllGatherStart")
    .Input("input: T")
    .Output("meeting: int64")
    .Attr("takes: bool = true")
    .Attr("T: " IPU_TYPES)
    .Attr("replication_factor: int >= 1")
    .SetIsStateful()
    .SetShapeFn(MeetingShape)
    .Doc("Gives a replica's part of IpuAllGather; IpuCollectiveFinish takes the result.");

REGISTER_OP("IpuAllToAll")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " IPU_TYPES)
    .Attr("split_dimension: int >= 0")
    .Attr("concat_dimension: int >= 0")
    .Attr("replication_factor: int >= 1")
    .SetIsStateful()
    .SetShapeFn(AllToAllShape)
    .Doc("One part of the tensor of each replica of a group, concatenated.");

#undef IPU_TYPES

#define REGISTER_REPLICA_OP(name, kernel)                                     \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU), kernel); \
  REGISTER_KERNEL_BUILDER(Name(name).Device("IPU").HostMemory("input").HostMemory("output"), kernel)

REGISTER_REPLICA_OP("IpuAssumeEqualAcrossReplicas", AssumeEqualOp);
REGISTER_REPLICA_OP("IpuReplicaBroadcast", BroadcastOp);
REGISTER_REPLICA_OP("IpuAllGather", AllGatherOp);
REGISTER_REPLICA_OP("IpuAllToAll", AllToAllOp);
REGISTER_KERNEL_BUILDER(Name("IpuReplicaBroadcastStart").Device(tensorflow::DEVICE_CPU),
                        CollectiveStartKernel<BroadcastOp>);
REGISTER_KERNEL_BUILDER(Name("IpuAllGatherStart").Device(tensorflow::DEVICE_CPU),
                        CollectiveStartKernel<AllGatherOp>);

#undef REGISTER_REPLICA_OP

REGISTER_KERNEL_BUILDER(Name("IpuReplicationIndex").Device(tensorflow::DEVICE_CPU),
                        ReplicationIndexOp);
REGISTER_KERNEL_BUILDER(Name("IpuReplicationIndex").Device("IPU").HostMemory("index"),
                        ReplicationIndexOp);
REGISTER_KERNEL_BUILDER(Name("IpuReplicationFactor").Device(tensorflow::DEVICE_CPU),
                        ReplicationFactorOp);
REGISTER_KERNEL_BUILDER(Name("IpuReplicationFactor").Device("IPU").HostMemory("output"),
                        ReplicationFactorOp);

}  // namespace tensorflow_ipu
