// How a process joins the others that run its program, and what their hosts do together.
#include <algorithm>
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
// how often each of them has come to it: in the launch that the op is part of, if it is.
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

  // Calls `then` with what each instance gives. Its error, or one before it, is that of the op.
  void Gather(OpKernelContext* ctx, Instances* instances, const std::string& key,
              const std::string& what, const Tensor& mine, DoneCallback done,
              std::function<Status(const Gathered&)> then) {
    const std::string label = StrCat(type_string(), " \"", meeting_, "\" of ", what);
    instances->Exchange(key, label, /*first=*/0, std::vector<int>(instances->count(), 1), {mine},
                        ctx->cancellation_manager(),
                        [ctx, done = std::move(done), then = std::move(then)](
                            const Status& status, std::vector<InstanceTensors> tensors) {
                          // What comes after the op would keep a thread of the transport.
                          (*ctx->runner())([ctx, done, then, status, tensors = std::move(tensors)] {
                            OP_REQUIRES_OK_ASYNC(ctx, status, done);
                            Gathered gathered;
                            for (const InstanceTensors& one : tensors) gathered.push_back(one[0]);
                            ctx->SetStatus(then(gathered));
                            done();
                          });
                        });
  }

  static std::string TextOf(const Tensor& tensor) {
    return StrCat(tensorflow::DataTypeString(tensor.dtype()), tensor.shape().DebugString());
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
  using InstanceKernel::InstanceKernel;

 protected:
  void Meet(OpKernelContext* ctx, Instances* instances, const std::string& key,
            DoneCallback done) override {
    const Tensor& mine = ctx->input(0);
    Gather(ctx, instances, key, TextOf(mine), mine, std::move(done),
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
};

class InstanceBroadcastOp : public InstanceKernel {
 public:
  explicit InstanceBroadcastOp(OpKernelConstruction* ctx) : InstanceKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("root", &root_));
  }

 protected:
  void Meet(OpKernelContext* ctx, Instances* instances, const std::string& key,
            DoneCallback done) override {
    const Tensor& mine = ctx->input(0);
    Gather(ctx, instances, key, StrCat(TextOf(mine), " from instance ", root_), mine,
           std::move(done), [ctx, root = root_](const Gathered& values) {
             ctx->set_output(0, values[root]);
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
    const std::string what =
        StrCat("rows of ", tensorflow::DataTypeString(mine.dtype()), row.DebugString());
    auto counts = std::make_shared<std::vector<int64_t>>();
    auto then = [this, ctx, instances, key, what, counts, row, done] {
      GatherRows(ctx, instances, key, what, *counts, row, done);
    };
    Gather(
        ctx, instances, StrCat(key, ";rows"), what, rows,
        [ctx, then, done] { ctx->status().ok() ? then() : done(); },
        [counts](const Gathered& values) {
          for (const Tensor& value : values) counts->push_back(value.scalar<int64_t>()());
          return tensorflow::OkStatus();
        });
  }

 private:
  // All send as many rows as the longest has.
  void GatherRows(OpKernelContext* ctx, Instances* instances, const std::string& key,
                  const std::string& what, const std::vector<int64_t>& counts,
                  const TensorShape& row, DoneCallback done) {
    const Tensor& mine = ctx->input(0);
    TensorShape shape = row, all = row;
    shape.InsertDim(0, *std::max_element(counts.begin(), counts.end()));
    all.InsertDim(0, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    Tensor padded = mine;
    if (shape != mine.shape()) {
      padded = Tensor(mine.dtype(), shape);
      Copy(mine, mine.TotalBytes(), 0, &padded);
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->allocate_output(0, all, &output), done);
    const int64_t row_bytes = row.num_elements() * tensorflow::DataTypeSize(mine.dtype());
    Gather(ctx, instances, key, what, padded, std::move(done),
           [output, counts, row_bytes](const Gathered& values) {
             int64_t at = 0;
             for (size_t i = 0; i < values.size(); ++i) {
               Copy(values[i], counts[i] * row_bytes, at, output);
               at += counts[i] * row_bytes;
             }
             return tensorflow::OkStatus();
           });
  }

  static void Copy(const Tensor& from, int64_t bytes, int64_t at, Tensor* to) {
    if (bytes > 0) std::memcpy(static_cast<char*>(to->data()) + at, from.data(), bytes);
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
    .Attr("meeting: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The sum of the tensors of all instances, on the host.");

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
