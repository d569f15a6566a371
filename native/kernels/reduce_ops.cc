// The collectives that reduce: cross_replica_sum and reduce_scatter.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/optional.h"
#include "kernels/collective_kernel.h"
#include "kernels/product_sums.h"
#include "kernels/reduction.h"
#include "kernels/split_collective_ops.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

using Pointers = absl::InlinedVector<const Tensor*, 16>;

Pointers PointersTo(Collective::Inputs inputs) {
  Pointers pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  return pointers;
}

// The reduction of parts that come one after the other. It has one buffer, but for 16-bit floats.
// Products wait until there are many, so that the buffer is read and written once for all of them.
class ReducedParts : public Accumulation {
 public:
  ReducedParts(Reduction reduction, int size) : reduction_(reduction), size_(size) {}

  Status Add(Part part, OpKernelContext* ctx) override {
    ++added_;
    if (part.product.has_value()) return AddProduct(*part.product, ctx);
    TF_RETURN_IF_ERROR(AddWaiting(/*divisor=*/1, ctx));
    if (added_ == 1) {
      first_ = std::move(part);
      return tensorflow::OkStatus();
    }
    const Tensor input = part.tensor;
    const bool begins = !has_partial_, ends = added_ == size_;
    Tensor output;
    TF_RETURN_IF_ERROR(
        Output(ends ? input.dtype() : PartialType(input.dtype()), input.shape(), ctx, &output));
    Pointers inputs;
    if (begins) inputs.push_back(&first_->tensor);
    inputs.push_back(&input);
    ReduceOn(reduction_, begins ? nullptr : &partial_, inputs, ends ? size_ : 0, &output,
             ctx->device()->tensorflow_cpu_worker_threads());
    Keep(std::move(output));
    return tensorflow::OkStatus();
  }

  // All members get the same buffer.
  Status Give(int /*member*/, OpKernelContext* ctx) const override {
    ctx->set_output(0, partial_);
    return tensorflow::OkStatus();
  }

  const Tensor& result() const { return partial_; }

 private:
  // Sets `output` to a buffer for what the parts come to: where they are now, if possible.
  Status Output(tensorflow::DataType type, const TensorShape& shape, OpKernelContext* ctx,
                Tensor* output) const {
    if (has_partial_ && partial_.dtype() == type) {
      *output = partial_;
    } else if (first_.has_value() && first_->is_owned && first_->tensor.dtype() == type) {
      *output = first_->tensor;
    } else {
      return ctx->allocate_temp(type, shape, output);
    }
    return tensorflow::OkStatus();
  }

  void Keep(Tensor partial) {
    first_.reset();
    partial_ = std::move(partial);
    has_partial_ = true;
  }

  Status AddProduct(const Product& product, OpKernelContext* ctx) {
    waiting_.emplace_back();
    TF_RETURN_IF_ERROR(PackedProduct::Pack(product, ctx, &waiting_.back()));
    waiting_bytes_ += waiting_.back().TotalBytes();
    if (added_ == size_) return AddWaiting(reduction_ == Reduction::kMean ? size_ : 1, ctx);
    const auto bytes = static_cast<int64_t>(product.shape().num_elements() * sizeof(float));
    return kWaiting * waiting_bytes_ < bytes ? tensorflow::OkStatus() : AddWaiting(1, ctx);
  }

  // Adds the products that wait, if any, and divides the sum.
  Status AddWaiting(float divisor, OpKernelContext* ctx) {
    if (waiting_.empty()) return tensorflow::OkStatus();
    const TensorShape shape({waiting_[0].rows(), waiting_[0].columns()});
    Tensor output;
    TF_RETURN_IF_ERROR(Output(tensorflow::DT_FLOAT, shape, ctx, &output));
    const Tensor* before = has_partial_         ? &partial_
                           : first_.has_value() ? &first_->tensor
                                                : nullptr;
    AddProducts(before, waiting_, divisor, &output, ctx->device()->tensorflow_cpu_worker_threads());
    Keep(std::move(output));
    waiting_.clear();
    waiting_bytes_ = 0;
    return tensorflow::OkStatus();
  }

  // Products wait until their factors take one part in so many of the memory of the sum.
  static constexpr int64_t kWaiting = 2;

  const Reduction reduction_;
  const int size_;
  int added_ = 0;
  absl::optional<Part> first_;
  Tensor partial_;  // of two parts or more; the result after the last
  bool has_partial_ = false;
  std::vector<PackedProduct> waiting_;
  int64_t waiting_bytes_ = 0;
};

// All members get the same buffer. Kernels that work in place leave it alone as long as it has
// several owners.
class CrossReplicaSumOp : public CollectiveKernel {
 public:
  explicit CrossReplicaSumOp(OpKernelConstruction* ctx) : CollectiveKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replica_group_size", &group_size_));
    bool mean;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("mean", &mean));
    reduction_ = mean ? Reduction::kMean : Reduction::kAdd;
  }

  Status Run(Inputs inputs, int /*first*/, Members members) const override {
    const Tensor& input = inputs[0];
    if (inputs.size() == 1) {
      members[0]->set_output(0, input);
      return tensorflow::OkStatus();
    }
    Tensor sum;
    TF_RETURN_IF_ERROR(members[0]->allocate_temp(input.dtype(), input.shape(), &sum));
    RunPart(inputs, members[0], &sum);
    for (OpKernelContext* member : members) member->set_output(0, sum);
    return tensorflow::OkStatus();
  }

  std::unique_ptr<Accumulation> Begin(int size) const override {
    return std::make_unique<ReducedParts>(reduction_, size);
  }

  bool IsElementwise() const override { return true; }

  void RunPart(Inputs inputs, OpKernelContext* member, Tensor* part) const override {
    Reduce(reduction_, PointersTo(inputs), 0, part->NumElements(), part,
           member->device()->tensorflow_cpu_worker_threads());
  }

 private:
  Reduction reduction_;
};

// Gives a part of CrossReplicaSumOp that is a product, as its factors.
class SumOfProductStart : public CollectiveStartKernel<CrossReplicaSumOp> {
 public:
  explicit SumOfProductStart(OpKernelConstruction* ctx) : CollectiveStartKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_a", &transpose_a_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_b", &transpose_b_));
  }

 protected:
  Part PartOf(OpKernelContext* ctx) const override {
    Part part;
    part.product = Product{ctx->input(0), ctx->input(1), transpose_a_, transpose_b_};
    return part;
  }

 private:
  bool transpose_a_, transpose_b_;
};

int64_t SliceSize(int64_t elements, int replicas) { return (elements + replicas - 1) / replicas; }

char* Bytes(const Tensor& tensor) { return static_cast<char*>(tensor.data()); }

void CopyElements(const Tensor& from, int64_t begin, int64_t end, Tensor* to) {
  const int64_t width = tensorflow::DataTypeSize(from.dtype());
  std::copy(Bytes(from) + begin * width, Bytes(from) + end * width, Bytes(*to));
}

// Zeros from element `begin` on. Zero is all bits zero, whatever the type.
void Pad(int64_t begin, Tensor* tensor) {
  const int64_t width = tensorflow::DataTypeSize(tensor->dtype());
  std::fill(Bytes(*tensor) + begin * width, Bytes(*tensor) + tensor->TotalBytes(), 0);
}

// The same, of which each member gets a slice.
class ScatteredParts : public ReducedParts {
 public:
  ScatteredParts(Reduction reduction, int size) : ReducedParts(reduction, size), size_(size) {}

  Status Give(int member, OpKernelContext* ctx) const override {
    const int64_t elements = result().NumElements();
    const int64_t size = SliceSize(elements, size_);
    Tensor* slice = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({size}), &slice));
    const int64_t begin = std::min<int64_t>(member * size, elements);
    const int64_t end = std::min<int64_t>(begin + size, elements);
    CopyElements(result(), begin, end, slice);
    Pad(end - begin, slice);
    return tensorflow::OkStatus();
  }

 private:
  const int size_;
};

class ReduceScatterOp : public CollectiveKernel {
 public:
  explicit ReduceScatterOp(OpKernelConstruction* ctx) : CollectiveKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replication_factor", &group_size_));
    std::string name;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("op", &name));
    OP_REQUIRES_OK(ctx, ReductionFromName(name, &reduction_));
    OP_REQUIRES(ctx, IsReductionOf(reduction_, ctx->input_type(0)),
                tensorflow::errors::InvalidArgument(
                    "There is no ", name, " of ", tensorflow::DataTypeString(ctx->input_type(0)),
                    ": logical operators take bool, the others numbers."));
  }

  Status Run(Inputs inputs, int first, Members members) const override {
    const Pointers pointers = PointersTo(inputs);
    const int64_t elements = inputs[0].NumElements();
    const int64_t size = SliceSize(elements, static_cast<int>(inputs.size()));
    if (inputs.size() == 1 && reduction_ != Reduction::kSquareAdd) {
      members[0]->set_output(0, inputs[0]);
      return tensorflow::OkStatus();
    }
    for (size_t i = 0; i < members.size(); ++i) {
      Tensor* slice = nullptr;
      TF_RETURN_IF_ERROR(members[i]->allocate_output(0, TensorShape({size}), &slice));
      const int64_t begin = std::min<int64_t>((first + i) * size, elements);
      const int64_t end = std::min<int64_t>(begin + size, elements);
      if (reduction_ == Reduction::kLocal) {
        CopyElements(inputs[first + i], begin, end, slice);
      } else {
        Reduce(reduction_, pointers, begin, end, slice,
               members[i]->device()->tensorflow_cpu_worker_threads());
      }
      Pad(end - begin, slice);
    }
    return tensorflow::OkStatus();
  }

  std::unique_ptr<Accumulation> Begin(int size) const override {
    return std::make_unique<ScatteredParts>(reduction_, size);
  }

  Extent Needed(const Tensor& given, int /*from*/, MemberRange to, int size) const override {
    if (reduction_ == Reduction::kLocal) return {};
    const int64_t elements = given.NumElements();
    const int64_t slice = SliceSize(elements, size);
    const int64_t width = tensorflow::DataTypeSize(given.dtype());
    const int64_t begin = std::min(to.begin * slice, elements);
    const int64_t end = std::min(to.end * slice, elements);
    return {begin * width, (end - begin) * width, 0, 1};
  }

 private:
  Reduction reduction_;
};

Status ReduceScatterShape(InferenceContext* c) {
  ShapeHandle input;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &input));
  int replicas;
  TF_RETURN_IF_ERROR(c->GetAttr("replication_factor", &replicas));
  const DimensionHandle elements = c->Dim(input, 0);
  c->set_output(0, c->ValueKnown(elements) ? c->Vector(SliceSize(c->Value(elements), replicas))
                                           : c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("IpuCrossReplicaSum")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, int8, uint8, int32, uint32, int64}")
    .Attr("replica_group_size: int >= 0 = 0")
    .Attr("mean: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The sum or mean of a tensor over replicas, in groups; 0 means one group.");

REGISTER_OP("IpuCrossReplicaSumStart")
    .Input("input: T")
    .Output("meeting: int64")
    .Attr("takes: bool = true")
    .Attr("T: {half, bfloat16, float, int8, uint8, int32, uint32, int64}")
    .Attr("replica_group_size: int >= 0 = 0")
    .Attr("mean: bool = false")
    .SetIsStateful()
    .SetShapeFn(MeetingShape)
    .Doc("Gives a replica's part of IpuCrossReplicaSum; IpuCollectiveFinish takes the result.");

#define IPU_REDUCTIONS                                                                    \
  "op: {'COLLECTIVE_OP_ADD', 'COLLECTIVE_OP_MEAN', 'COLLECTIVE_OP_MUL', "                 \
  "'COLLECTIVE_OP_MIN', 'COLLECTIVE_OP_MAX', "                                            \
  "'COLLECTIVE_OP_LOGICAL_AND', 'COLLECTIVE_OP_LOGICAL_OR', 'COLLECTIVE_OP_SQUARE_ADD', " \
  "'COLLECTIVE_OP_LOCAL'} = 'COLLECTIVE_OP_ADD'"

REGISTER_OP("IpuCrossReplicaSumOfProductStart")
    .Input("a: T")
    .Input("b: T")
    .Output("meeting: int64")
    .Attr("takes: bool = true")
    .Attr("T: {float}")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("replica_group_size: int >= 0 = 0")
    .Attr("mean: bool = false")
    .SetIsStateful()
    .SetShapeFn(MeetingShape)
    .Doc("IpuCrossReplicaSumStart of a product that only this op uses.");

REGISTER_OP("IpuReduceScatterStart")
    .Input("input: T")
    .Output("meeting: int64")
    .Attr("takes: bool = true")
    .Attr("T: {half, bfloat16, float, int8, uint8, int32, uint32, int64, bool}")
    .Attr("replication_factor: int >= 1")
    .Attr(IPU_REDUCTIONS)
    .SetIsStateful()
    .SetShapeFn(MeetingShape)
    .Doc("Gives a replica's part of IpuReduceScatter; IpuCollectiveFinish takes the result.");

REGISTER_OP("IpuReduceScatter")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, int8, uint8, int32, uint32, int64, bool}")
    .Attr("replication_factor: int >= 1")
    .Attr(IPU_REDUCTIONS)
    .SetIsStateful()
    .SetShapeFn(ReduceScatterShape)
    .Doc("Each replica's slice of a reduction of vectors over groups of replicas.");

#undef IPU_REDUCTIONS

#define REGISTER_REPLICA_OP(name, kernel)                                     \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU), kernel); \
  REGISTER_KERNEL_BUILDER(Name(name).Device("IPU").HostMemory("input").HostMemory("output"), kernel)

REGISTER_REPLICA_OP("IpuCrossReplicaSum", CrossReplicaSumOp);
REGISTER_REPLICA_OP("IpuReduceScatter", ReduceScatterOp);
REGISTER_KERNEL_BUILDER(Name("IpuCrossReplicaSumStart").Device(tensorflow::DEVICE_CPU),
                        CollectiveStartKernel<CrossReplicaSumOp>);
REGISTER_KERNEL_BUILDER(Name("IpuCrossReplicaSumOfProductStart").Device(tensorflow::DEVICE_CPU),
                        SumOfProductStart);
REGISTER_KERNEL_BUILDER(Name("IpuReduceScatterStart").Device(tensorflow::DEVICE_CPU),
                        CollectiveStartKernel<ReduceScatterOp>);

#undef REGISTER_REPLICA_OP

}  // namespace tensorflow_ipu
