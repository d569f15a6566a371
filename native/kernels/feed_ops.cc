// Ops of the infeed and outfeed queues. The work is done in engine/feeds.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/feeds/feed_manager.h"
#include "engine/launch_context.h"
#include "kernels/background_kernel.h"
#include "kernels/declared_shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("IpuInfeedInitialize")
    .Input("dataset: variant")
    .Attr("feed_id: string")
    .Attr("device_ordinal: int >= 0")
    .Attr("prefetch_depth: int >= 1")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    // The types that an element may have.
    .Attr("supported_types: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("IpuInfeedDelete")
    .Attr("feed_id: string")
    .Attr("device_ordinal: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("IpuInfeedDequeue")
    .Output("outputs: output_types")
    .Attr("feed_id: string")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn(DeclaredShapes);

REGISTER_OP("IpuOutfeedEnqueue")
    .Input("inputs: T")
    .Attr("T: list(type) >= 1")
    .Attr("feed_id: string")
    .Attr("mode: {'all', 'get_last'}")
    // Those of the inputs, as far as they were known when the program was traced.
    .Attr("shapes: list(shape) = []")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// `output_shapes` are those of one enqueued element. How many there are, and of how many replicas,
// is known when the op runs.
REGISTER_OP("IpuOutfeedDequeue")
    .Output("outputs: output_types")
    .Attr("feed_id: string")
    .Attr("device_ordinal: int >= 0")
    .Attr("mode: {'all', 'get_last'}")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("wait_for_completion: bool = false")
    .Attr("synthetic: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);

REGISTER_OP("IpuOutfeedDelete")
    .Attr("feed_id: string")
    .Attr("device_ordinal: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

Status FeedsOf(int ordinal, FeedManager** feeds) {
  *feeds = FeedManager::Get(ordinal);
  if (*feeds != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument("device_ordinal is ", ordinal, ", but must be below ",
                                             kMaxDevices, ".");
}

Status LaunchOf(OpKernelContext* ctx, LaunchContext** launch) {
  *launch = LaunchContext::From(ctx);
  if (*launch != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::FailedPrecondition(
      ctx->op_kernel().type_string(),
      " works only in a program compiled for the IPU. Use the "
      "queue in ipu_compiler.compile, or in a function that runs in an IPUStrategy.");
}

tensorflow::Status SizeZero(const char* what) {
  return tensorflow::errors::InvalidArgument(
      "Detected ", what,
      " with a dimension of size 0. The IPU has no empty tensors to send: leave such tensors out, "
      "or give all dimensions at least one element.");
}

// Lives among the resources that the dataset of an infeed may use. It goes when they go (when the
// session is deleted, say), and stops the infeed before its dataset can miss them. The infeed
// itself may be deleted later: an op that it has answered has a reference until it returns.
class InfeedGuard : public tensorflow::ResourceBase {
 public:
  InfeedGuard(FeedManager* feeds, std::string name, std::shared_ptr<Infeed> infeed)
      : feeds_(feeds), name_(std::move(name)), infeed_(std::move(infeed)) {}

  ~InfeedGuard() override { feeds_->AbandonInfeed(name_, infeed_); }

  std::string DebugString() const override { return "guard of the infeed " + name_; }

 private:
  FeedManager* const feeds_;
  const std::string name_;
  const std::shared_ptr<Infeed> infeed_;
};

class InfeedInitializeOp : public BackgroundOpKernel {
 public:
  explicit InfeedInitializeOp(OpKernelConstruction* ctx)
      : BackgroundOpKernel(ctx), graph_def_version_(ctx->graph_def_version()) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("feed_id", &options_.name));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("device_ordinal", &ordinal_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("prefetch_depth", &options_.prefetch_depth));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &options_.types));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &options_.shapes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("supported_types", &supported_));
  }

 protected:
  Status Run(OpKernelContext* ctx, CancellationManager*) override {
    TF_RETURN_IF_ERROR(CheckElements());
    FeedManager* feeds;
    TF_RETURN_IF_ERROR(FeedsOf(ordinal_, &feeds));
    std::unique_ptr<DatasetReader> reader;
    TF_RETURN_IF_ERROR(DatasetReader::Create(ctx, ctx->input(0), graph_def_version_, &reader));
    auto infeed = std::make_shared<Infeed>(options_, std::move(reader));
    TF_RETURN_IF_ERROR(feeds->AddInfeed(options_.name, infeed));
    return Guard(ctx->resource_manager(), feeds, infeed);
  }

 private:
  Status CheckElements() const {
    for (size_t i = 0; i < options_.types.size(); ++i) {
      const auto type = options_.types[i];
      if (std::find(supported_.begin(), supported_.end(), type) == supported_.end()) {
        return tensorflow::errors::FailedPrecondition(
            "Unsupported datatype ", tensorflow::DataTypeString(type), " on index ", i,
            " of feed operation ", name(), ". The IPU has ", DataTypeSliceString(supported_),
            ". Cast it on the host first: dataset.map(lambda x: tf.cast(x, tf.int32)).");
      }
      if (options_.shapes[i].num_elements() == 0) {
        return SizeZero("an input tensor to an infeed queue");
      }
    }
    return tensorflow::OkStatus();
  }

  Status Guard(tensorflow::ResourceMgr* resources, FeedManager* feeds,
               const std::shared_ptr<Infeed>& infeed) {
    const std::string container = resources->default_container();
    // Left by an earlier initialisation, whose infeed has been deleted since.
    resources->Delete<InfeedGuard>(container, options_.name).IgnoreError();
    return resources->Create(container, options_.name,
                             new InfeedGuard(feeds, options_.name, infeed));
  }

  const int graph_def_version_;
  int ordinal_;
  InfeedOptions options_;
  tensorflow::DataTypeVector supported_;
};

class InfeedDeleteOp : public BackgroundOpKernel {
 public:
  explicit InfeedDeleteOp(OpKernelConstruction* ctx) : BackgroundOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("feed_id", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("device_ordinal", &ordinal_));
  }

 protected:
  Status Run(OpKernelContext*, CancellationManager* cancellation) override {
    FeedManager* feeds;
    TF_RETURN_IF_ERROR(FeedsOf(ordinal_, &feeds));
    return feeds->DeleteInfeed(name_, cancellation);
  }

 private:
  std::string name_;
  int ordinal_;
};

// The infeed called `name` on the device of the launch that `ctx` is in.
Status FindInfeed(OpKernelContext* ctx, const std::string& name, std::shared_ptr<Infeed>* infeed,
                  InfeedReader* reader) {
  LaunchContext* launch;
  TF_RETURN_IF_ERROR(LaunchOf(ctx, &launch));
  FeedManager* feeds;
  TF_RETURN_IF_ERROR(FeedsOf(launch->device_ordinal(), &feeds));
  *reader = {launch->launch_id(), launch->replica(), launch->num_replicas(),
             launch->variable_bytes()};
  return feeds->FindInfeed(name, infeed);
}

void SetOutputs(OpKernelContext* ctx, const Status& status, Element element) {
  ctx->SetStatus(status);
  for (size_t i = 0; i < element.size(); ++i) ctx->set_output(i, std::move(element[i]));
}

class InfeedDequeueOp : public AsyncOpKernel {
 public:
  explicit InfeedDequeueOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("feed_id", &name_));
  }

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Infeed> infeed;
    InfeedReader reader;
    OP_REQUIRES_OK_ASYNC(ctx, FindInfeed(ctx, name_, &infeed, &reader), done);
    infeed->GetNextAsync(reader, ctx->cancellation_manager(),
                         [ctx, done = std::move(done)](const Status& status, Element element) {
                           SetOutputs(ctx, status, std::move(element));
                           done();
                         });
  }

 private:
  std::string name_;
};

Status GetMode(OpKernelConstruction* ctx, OutfeedMode* mode) {
  std::string name;
  TF_RETURN_IF_ERROR(ctx->GetAttr("mode", &name));
  *mode = name == "all" ? OutfeedMode::kAll : OutfeedMode::kLast;
  return tensorflow::OkStatus();
}

class OutfeedEnqueueOp : public OpKernel {
 public:
  explicit OutfeedEnqueueOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("feed_id", &name_));
    OP_REQUIRES_OK(ctx, GetMode(ctx, &mode_));
  }

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    LaunchContext* launch;
    OP_REQUIRES_OK(ctx, LaunchOf(ctx, &launch));
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      OP_REQUIRES(ctx, ctx->input(i).NumElements() > 0,
                  SizeZero("an input tensor to an outfeed queue"));
    }
    FeedManager* feeds;
    OP_REQUIRES_OK(ctx, FeedsOf(launch->device_ordinal(), &feeds));
    OP_REQUIRES_OK(ctx, feeds->FindOrAddOutfeed(name_, mode_)->Enqueue(*launch, ctx));
  }

 private:
  std::string name_;
  OutfeedMode mode_;
};

class OutfeedDequeueOp : public BackgroundOpKernel {
 public:
  explicit OutfeedDequeueOp(OpKernelConstruction* ctx) : BackgroundOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("feed_id", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("device_ordinal", &ordinal_));
    OP_REQUIRES_OK(ctx, GetMode(ctx, &mode_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &types_));
    std::vector<tensorflow::PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes));
    for (const auto& shape : shapes) shapes_.push_back(SmallestShape(shape));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("wait_for_completion", &wait_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("synthetic", &synthetic_));
  }

 protected:
  bool Waits() override {
    DeviceState* device = DeviceState::Get(ordinal_);
    return WaitsForPrograms() && device != nullptr && device->running_launches() > 0;
  }

  Status Run(OpKernelContext* ctx, CancellationManager* cancellation) override {
    DeviceState* device = DeviceState::Get(ordinal_);
    if (WaitsForPrograms() && device != nullptr) {
      TF_RETURN_IF_ERROR(device->WaitIdle(cancellation));
    }
    return Dequeue(ctx);
  }

 private:
  bool WaitsForPrograms() const { return wait_ || mode_ == OutfeedMode::kLast; }

  Status Dequeue(OpKernelContext* ctx) {
    FeedManager* feeds;
    TF_RETURN_IF_ERROR(FeedsOf(ordinal_, &feeds));
    OutfeedValues values;
    if (auto outfeed = feeds->FindOutfeed(name_)) values = outfeed->TakeAll();
    if (values.types.empty()) {  // no program has run
      values.types = types_;
      values.shapes = shapes_;
    }
    if (mode_ == OutfeedMode::kLast && values.groups == 0) return NoLastValue();
    for (size_t i = 0; i < types_.size(); ++i) {
      Tensor stacked;
      TF_RETURN_IF_ERROR(values.Stack(i, mode_ == OutfeedMode::kAll, &stacked));
      ctx->set_output(i, std::move(stacked));
    }
    return tensorflow::OkStatus();
  }

  // Of an element that no program has made yet: dimensions that are not known count as 0.
  static TensorShape SmallestShape(const tensorflow::PartialTensorShape& shape) {
    TensorShape smallest;
    for (int i = 0; i < shape.dims(); ++i) {
      smallest.AddDim(std::max<int64_t>(shape.dim_size(i), 0));
    }
    return smallest;
  }

  Status NoLastValue() const {
    if (synthetic_) {
      // Programs look for this spelling.
      return tensorflow::errors::FailedPrecondition(
          "An outfeed queue in mode LAST has no last value when using synthethic data. Outfeed: ",
          name_, ". Use mode ALL, or remove the outfeed from the synthetic data categories.");
    }
    return tensorflow::errors::FailedPrecondition(
        "Trying to get the last value from an outfeed queue before it was executed. Outfeed: ",
        name_, " on /device:IPU:", ordinal_,
        ". Run the program that enqueues to it, on this "
        "device, before each dequeue.");
  }

  std::string name_;
  int ordinal_;
  OutfeedMode mode_;
  bool wait_;
  bool synthetic_;
  std::vector<tensorflow::DataType> types_;
  std::vector<TensorShape> shapes_;
};

class OutfeedDeleteOp : public OpKernel {
 public:
  explicit OutfeedDeleteOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("feed_id", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("device_ordinal", &ordinal_));
  }

  void Compute(OpKernelContext* ctx) override {
    FeedManager* feeds;
    OP_REQUIRES_OK(ctx, FeedsOf(ordinal_, &feeds));
    OP_REQUIRES_OK(ctx, feeds->DeleteOutfeed(name_));
  }

 private:
  std::string name_;
  int ordinal_;
};

#define REGISTER_HOST_KERNEL(name, kernel) \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU), kernel)

REGISTER_HOST_KERNEL("IpuInfeedInitialize", InfeedInitializeOp);
REGISTER_HOST_KERNEL("IpuInfeedDelete", InfeedDeleteOp);
REGISTER_HOST_KERNEL("IpuInfeedDequeue", InfeedDequeueOp);
// Chosen by the node attribute `_kernel`, which the compiler sets.
REGISTER_HOST_KERNEL("IpuOutfeedEnqueue", OutfeedEnqueueOp);
REGISTER_HOST_KERNEL("IpuOutfeedDequeue", OutfeedDequeueOp);
REGISTER_HOST_KERNEL("IpuOutfeedDelete", OutfeedDeleteOp);

#undef REGISTER_HOST_KERNEL

}  // namespace
}  // namespace tensorflow_ipu
