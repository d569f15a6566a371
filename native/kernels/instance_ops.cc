// How a process joins the others that run its program, and what their hosts do together.
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/instances.h"
#include "engine/launch_context.h"
#include "kernels/reduction.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/hash.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;
using tensorflow::strings::StrCat;

// Runs once, on the CPU of the eager context: only ops know the collective executor.
class JoinInstancesOp : public tensorflow::OpKernel {
 public:
  explicit JoinInstancesOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tasks", &tasks_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("index", &index_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed", &seed_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("addresses", &addresses_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("limit", &limit_));
  }

  void Compute(OpKernelContext* ctx) override {
    auto* cpu = static_cast<tensorflow::Device*>(ctx->device());
    OP_REQUIRES_OK(ctx, Instances::Join(tasks_, index_, static_cast<uint64_t>(seed_), addresses_,
                                        limit_, ctx->collective_executor(), cpu));
  }

 private:
  std::vector<std::string> tasks_;
  int index_;
  int64_t seed_;
  std::vector<std::string> addresses_;
  float limit_;  // seconds
};

// What the hosts of all instances do together. They find each other by the name of the meeting, and
// how often each of them has come to it: in the launch that the op is part of, if it is. Kernels
// block no thread, so meetings may begin in another order in each instance.
class InstanceKernel : public tensorflow::AsyncOpKernel {
 public:
  using Gathered = std::vector<Tensor>;

  explicit InstanceKernel(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("meeting", &meeting_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Instances* instances = Instances::Get();
    OP_REQUIRES_ASYNC(ctx, instances != nullptr,
                      tensorflow::errors::FailedPrecondition(
                          name(), " (", type_string(),
                          ") meets other instances of the program, but this process has not joined "
                          "them. Start it with poprun, and call popdist.init() at its beginning."),
                      done);
    Meet(ctx, instances, KeyOf(ctx, instances), std::move(done));
  }

 protected:
  // Gets the inputs of all instances, and sets the output.
  virtual void Meet(OpKernelContext* ctx, Instances* instances, const std::string& key,
                    DoneCallback done) = 0;

  // Gives `mine` to all instances, and calls `then` with what each of them gives, of the same type
  // and shape.
  void Gather(OpKernelContext* ctx, Instances* instances, const std::string& key,
              const ExchangeLabel& label, const Tensor& mine, DoneCallback done,
              std::function<Status(const Gathered&)> then) {
    Gathered gathered;
    std::vector<Parcel> parcels;
    for (int other = 0; other < instances->count(); ++other) {
      gathered.push_back(other == instances->index() ? mine : Tensor(mine.dtype(), mine.shape()));
      if (other != instances->index()) parcels.push_back({other, {mine}, {gathered.back()}});
    }
    Exchange(ctx, instances, key, label, std::move(parcels), std::move(done),
             [gathered, then = std::move(then)] { return then(gathered); });
  }

  // Calls `then` when all parcels have come. Its error, or one before it, is that of the op.
  void Exchange(OpKernelContext* ctx, Instances* instances, const std::string& key,
                const ExchangeLabel& label, std::vector<Parcel> parcels, DoneCallback done,
                std::function<Status()> then) {
    instances->Exchange(
        key, label, /*compare=*/true, std::move(parcels), ctx->cancellation_manager(),
        [ctx, done = std::move(done), then = std::move(then)](const Status& status) {
          // What comes after the op would keep a thread of the transport.
          (*ctx->runner())([ctx, done, then, status] {
            OP_REQUIRES_OK_ASYNC(ctx, status, done);
            ctx->SetStatus(then());
            done();
          });
        });
  }

  // The label of an exchange of tensors with this layout; `more` says more of the op.
  ExchangeLabel LabelOf(const std::string& layout, const std::string& more = "") const {
    return {StrCat(type_string(), " \"", meeting_, "\"", more), /*program=*/"", layout};
  }

  static std::string LayoutOf(tensorflow::DataType type, const TensorShape& shape) {
    return StrCat(tensorflow::DataTypeString(type), shape.DebugString());
  }

 private:
  std::string KeyOf(OpKernelContext* ctx, Instances* instances) const {
    LaunchContext* launch = LaunchContext::From(ctx);
    if (launch == nullptr) {
      return StrCat("host;", meeting_, ";", instances->Next(StrCat("host;", meeting_)));
    }
    const auto meeting = static_cast<int64_t>(tensorflow::Hash64(meeting_));
    return StrCat(launch->rendezvous().Name(), ";", launch->replica(), ";", meeting_, ";",
                  launch->NextOccurrence(meeting));
  }

  std::string meeting_;
};

class InstanceSumOp : public InstanceKernel {
 public:
  explicit InstanceSumOp(OpKernelConstruction* ctx) : InstanceKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("given", &given_));
  }

 protected:
  void Meet(OpKernelContext* ctx, Instances* instances, const std::string& key,
            DoneCallback done) override {
    const Tensor& mine = ctx->input(0);
    const ExchangeLabel label = LabelOf(LayoutOf(given_, mine.shape()));
    Gather(ctx, instances, key, label, mine, std::move(done),
           [ctx](const Gathered& values) -> Status {
             Tensor* sum = nullptr;
             TF_RETURN_IF_ERROR(ctx->allocate_output(0, values[0].shape(), &sum));
             std::vector<const Tensor*> pointers;
             for (const Tensor& value : values) pointers.push_back(&value);
             Reduce(Reduction::kAdd, pointers, 0, sum->NumElements(), sum,
                    ctx->device()->tensorflow_cpu_worker_threads());
             return tensorflow::OkStatus();
           });
  }

 private:
  tensorflow::DataType given_;
};

class InstanceBroadcastOp : public InstanceKernel {
 public:
  explicit InstanceBroadcastOp(OpKernelConstruction* ctx) : InstanceKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("root", &root_));
  }

 protected:
  void Meet(OpKernelContext* ctx, Instances* instances, const std::string& key,
            DoneCallback done) override {
    Tensor value = ctx->input(0);
    const ExchangeLabel label =
        LabelOf(LayoutOf(value.dtype(), value.shape()), StrCat(" from instance ", root_));
    const bool gives = instances->index() == root_;
    if (!gives) value = Tensor(value.dtype(), value.shape());
    std::vector<Parcel> parcels;
    for (int other = 0; other < instances->count(); ++other) {
      if (other == instances->index()) continue;
      Parcel parcel{other, {}, {}};
      if (gives) parcel.give.push_back(value);
      if (other == root_) parcel.take.push_back(value);
      parcels.push_back(std::move(parcel));
    }
    Exchange(ctx, instances, key, label, std::move(parcels), std::move(done), [ctx, value] {
      ctx->set_output(0, value);
      return tensorflow::OkStatus();
    });
  }

 private:
  int root_;
};

// The instances may have different numbers of rows, so they tell each other these first.
class InstanceGatherOp : public InstanceKernel {
 public:
  using InstanceKernel::InstanceKernel;

 protected:
  void Meet(OpKernelContext* ctx, Instances* instances, const std::string& key,
            DoneCallback done) override {
    const Tensor& mine = ctx->input(0);
    OP_REQUIRES_ASYNC(
        ctx, mine.dims() > 0,
        tensorflow::errors::InvalidArgument("Scalars cannot be joined along dimension 0: ", name()),
        done);
    Tensor rows(tensorflow::DT_INT64, TensorShape({}));
    rows.scalar<int64_t>()() = mine.dim_size(0);
    TensorShape row = mine.shape();
    row.RemoveDim(0);
    const ExchangeLabel label = LabelOf(StrCat("rows of ", LayoutOf(mine.dtype(), row)));
    auto counts = std::make_shared<std::vector<int64_t>>();
    auto then = [this, ctx, instances, key, label, counts, row, done] {
      GatherRows(ctx, instances, key, label, *counts, row, done);
    };
    Gather(
        ctx, instances, StrCat(key, ";rows"), label, rows,
        [ctx, then, done] { ctx->status().ok() ? then() : done(); },
        [counts](const Gathered& values) {
          for (const Tensor& value : values) counts->push_back(value.scalar<int64_t>()());
          return tensorflow::OkStatus();
        });
  }

 private:
  void GatherRows(OpKernelContext* ctx, Instances* instances, const std::string& key,
                  const ExchangeLabel& label, const std::vector<int64_t>& counts,
                  const TensorShape& row, DoneCallback done) {
    const Tensor& mine = ctx->input(0);
    TensorShape all = row;
    all.InsertDim(0, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->allocate_output(0, all, &output), done);
    std::vector<Parcel> parcels;
    int64_t begin = 0;
    for (int other = 0; other < instances->count(); ++other) {
      Tensor theirs = output->Slice(begin, begin + counts[other]);
      begin += counts[other];
      if (other != instances->index()) {
        parcels.push_back({other, {mine}, {std::move(theirs)}});
      } else if (mine.TotalBytes() > 0) {
        std::memcpy(theirs.data(), mine.data(), mine.TotalBytes());
      }
    }
    Exchange(ctx, instances, key, label, std::move(parcels), std::move(done),
             [] { return tensorflow::OkStatus(); });
  }
};

Status GatherShape(InferenceContext* c) {
  ShapeHandle input, rows;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &input));
  if (!c->RankKnown(input)) {
    c->set_output(0, c->UnknownShape());
    return tensorflow::OkStatus();
  }
  TF_RETURN_IF_ERROR(c->ReplaceDim(input, 0, c->UnknownDim(), &rows));
  c->set_output(0, rows);
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("IpuJoinInstances")
    .Attr("tasks: list(string)")
    .Attr("index: int >= 0")
    .Attr("seed: int")
    .Attr("addresses: list(string)")
    .Attr("limit: float")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Lets programs of this process meet those of the other instances.");

REGISTER_OP("IpuInstanceSum")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, int8, uint8, int32, uint32, int64}")
    .Attr("given: type")
    .Attr("meeting: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc(R"doc(
The sum of the tensors of all instances, on the host.

given: type of the tensor before it was cast to be added, which has to be that of all instances.
)doc");

REGISTER_OP("IpuInstanceBroadcast")
    .Input("input: T")
    .Output("output: T")
    .Attr(
        "T: {half, bfloat16, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
        "uint64, bool}")
    .Attr("root: int >= 0")
    .Attr("meeting: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The tensor of one instance, on the host of all.");

REGISTER_OP("IpuInstanceGather")
    .Input("input: T")
    .Output("output: T")
    .Attr(
        "T: {half, bfloat16, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
        "uint64, bool}")
    .Attr("meeting: string")
    .SetIsStateful()
    .SetShapeFn(GatherShape)
    .Doc("The tensors of all instances, joined along dimension 0, on the host.");

REGISTER_KERNEL_BUILDER(Name("IpuJoinInstances").Device(tensorflow::DEVICE_CPU), JoinInstancesOp);
REGISTER_KERNEL_BUILDER(Name("IpuInstanceSum").Device(tensorflow::DEVICE_CPU), InstanceSumOp);
REGISTER_KERNEL_BUILDER(Name("IpuInstanceBroadcast").Device(tensorflow::DEVICE_CPU),
                        InstanceBroadcastOp);
REGISTER_KERNEL_BUILDER(Name("IpuInstanceGather").Device(tensorflow::DEVICE_CPU), InstanceGatherOp);

}  // namespace tensorflow_ipu
