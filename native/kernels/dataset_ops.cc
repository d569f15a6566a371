// Host ops that read a dataset the way an infeed does: to measure it, and to export it.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/feeds/dataset_reader.h"
#include "engine/feeds/stack.h"
#include "kernels/background_kernel.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/stringprintf.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::CancellationManager;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

Status StackedShapes(InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  tensorflow::int64 num_elements;
  TF_RETURN_IF_ERROR(c->GetAttr("num_elements", &num_elements));
  for (size_t i = 0; i < shapes.size(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(num_elements), shape, &shape));
    c->set_output(i, shape);
  }
  return tensorflow::OkStatus();
}

REGISTER_OP("IpuDatasetBenchmark")
    .Input("dataset: variant")
    .Output("statistics: string")
    .Attr("number_of_epochs: int >= 1")
    .Attr("elements_per_epochs: int >= 1")
    .Attr("print_stats: bool = true")
    .Attr("do_memcpy: bool = true")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(1));
      return tensorflow::OkStatus();
    });

REGISTER_OP("IpuDatasetExtract")
    .Input("dataset: variant")
    .Output("outputs: output_types")
    .Attr("num_elements: int >= 1")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn(StackedShapes);

// Cancels `reader` when the work that it is for is cancelled.
class CancelWithStep {
 public:
  CancelWithStep(CancellationManager* cancellation, DatasetReader* reader)
      : cancellation_(cancellation) {
    if (cancellation_ == nullptr) return;
    token_ = cancellation_->get_cancellation_token();
    if (!cancellation_->RegisterCallback(token_, [reader] { reader->Cancel(); })) {
      reader->Cancel();
    }
  }

  // Waits for a cancellation that has begun: it uses the reader.
  ~CancelWithStep() {
    if (cancellation_ != nullptr) cancellation_->DeregisterCallback(token_);
  }

 private:
  CancellationManager* const cancellation_;
  tensorflow::CancellationToken token_ = CancellationManager::kInvalidToken;
};

Status ReadElement(DatasetReader* reader, Element* element) {
  bool end = false;
  TF_RETURN_IF_ERROR(reader->GetNext(element, &end));
  return end ? tensorflow::errors::OutOfRange("reached the end of the dataset")
             : tensorflow::OkStatus();
}

struct Epoch {
  int64_t elements = 0;
  int64_t bytes = 0;
  double seconds = 0;

  double ElementsPerSecond() const { return elements / seconds; }
  // In GB/s: 10^9 bytes.
  double Bandwidth() const { return bytes / 1e9 / seconds; }

  std::string Json() const {
    return tensorflow::strings::Printf(
        "{\"elements_processed\": %lld, \"total_bytes_processed\": %lld, \"time_elapsed\": %.9g, "
        "\"elements_per_second\": %.9g, \"bandwidth\": %.9g}",
        static_cast<long long>(elements), static_cast<long long>(bytes), seconds,
        ElementsPerSecond(), Bandwidth());
  }
};

class DatasetBenchmarkOp : public BackgroundOpKernel {
 public:
  explicit DatasetBenchmarkOp(OpKernelConstruction* ctx)
      : BackgroundOpKernel(ctx), graph_def_version_(ctx->graph_def_version()) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number_of_epochs", &epochs_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("elements_per_epochs", &elements_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("print_stats", &print_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("do_memcpy", &copy_));
  }

 protected:
  Status Run(OpKernelContext* ctx, CancellationManager* cancellation) override {
    std::unique_ptr<DatasetReader> reader;
    TF_RETURN_IF_ERROR(DatasetReader::Create(ctx, ctx->input(0), graph_def_version_, &reader));
    CancelWithStep cancel(cancellation, reader.get());
    std::string json;
    for (int64_t i = 0; i < epochs_; ++i) {
      Epoch epoch;
      TF_RETURN_IF_ERROR(RunEpoch(reader.get(), &epoch));
      if (print_) Print(i, epoch);
      tensorflow::strings::StrAppend(&json, i == 0 ? "" : ", ", epoch.Json());
    }
    Tensor statistics(tensorflow::DT_STRING, TensorShape({1}));
    statistics.vec<tensorflow::tstring>()(0) = "{\"epochs\": [" + json + "]}";
    ctx->set_output(0, statistics);
    return tensorflow::OkStatus();
  }

 private:
  Status RunEpoch(DatasetReader* reader, Epoch* epoch) const {
    std::vector<char> buffer;
    Element element;
    const uint64_t start = tensorflow::Env::Default()->NowNanos();
    for (int64_t i = 0; i < elements_; ++i) {
      TF_RETURN_IF_ERROR(ReadElement(reader, &element));
      for (const Tensor& tensor : element) {
        if (tensor.NumElements() == 0) {
          return tensorflow::errors::InvalidArgument(
              "Detected a tensor in the dataset with a dimension of size 0: ",
              tensor.shape().DebugString(), ". The IPU has no empty tensors to send.");
        }
        epoch->bytes += tensor.TotalBytes();
        if (copy_) Copy(tensor, &buffer);
      }
    }
    const uint64_t elapsed = tensorflow::Env::Default()->NowNanos() - start;
    epoch->elements = elements_;
    // At least a nanosecond, so that the rates are numbers.
    epoch->seconds = std::max<uint64_t>(elapsed, 1) / 1e9;
    return tensorflow::OkStatus();
  }

  static void Copy(const Tensor& tensor, std::vector<char>* buffer) {
    if (!tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) return;
    const size_t size = tensor.TotalBytes();
    if (buffer->size() < size) buffer->resize(size);
    if (size > 0) std::memcpy(buffer->data(), tensor.data(), size);
  }

  static void Print(int64_t index, const Epoch& epoch) {
    std::printf("Epoch %lld: %lld elements, %lld bytes in %.6g s: %.6g elements/s, %.6g GB/s\n",
                static_cast<long long>(index), static_cast<long long>(epoch.elements),
                static_cast<long long>(epoch.bytes), epoch.seconds, epoch.ElementsPerSecond(),
                epoch.Bandwidth());
    std::fflush(stdout);
  }

  const int graph_def_version_;
  int64_t epochs_;
  int64_t elements_;
  bool print_;
  bool copy_;
};

class DatasetExtractOp : public BackgroundOpKernel {
 public:
  explicit DatasetExtractOp(OpKernelConstruction* ctx)
      : BackgroundOpKernel(ctx), graph_def_version_(ctx->graph_def_version()) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_elements", &elements_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes_));
  }

 protected:
  Status Run(OpKernelContext* ctx, CancellationManager* cancellation) override {
    std::unique_ptr<DatasetReader> reader;
    TF_RETURN_IF_ERROR(DatasetReader::Create(ctx, ctx->input(0), graph_def_version_, &reader));
    CancelWithStep cancel(cancellation, reader.get());
    std::vector<Tensor> stacked = Allocate();
    Element element;
    for (int64_t i = 0; i < elements_; ++i) {
      const Status status = ReadElement(reader.get(), &element);
      if (tensorflow::errors::IsOutOfRange(status)) return TooFew(i);
      TF_RETURN_IF_ERROR(status);
      TF_RETURN_IF_ERROR(Store(element, i, &stacked));
    }
    for (size_t i = 0; i < stacked.size(); ++i) ctx->set_output(i, std::move(stacked[i]));
    return tensorflow::OkStatus();
  }

 private:
  std::vector<Tensor> Allocate() const {
    std::vector<Tensor> stacked;
    for (size_t i = 0; i < types_.size(); ++i) {
      TensorShape shape = shapes_[i];
      shape.InsertDim(0, elements_);
      stacked.emplace_back(types_[i], shape);
    }
    return stacked;
  }

  Status Store(const Element& element, int64_t index, std::vector<Tensor>* stacked) const {
    for (size_t i = 0; i < stacked->size(); ++i) {
      if (i >= element.size() || element[i].dtype() != types_[i] ||
          element[i].shape() != shapes_[i]) {
        return tensorflow::errors::InvalidArgument(
            "Element ", index,
            " of the dataset has another type or shape than the dataset "
            "declares for its tensor ",
            i, ": ", tensorflow::DataTypeString(types_[i]), shapes_[i].DebugString(), ".");
      }
      TF_RETURN_IF_ERROR(CopyToPlace(element[i], index, &(*stacked)[i]));
    }
    return tensorflow::OkStatus();
  }

  Status TooFew(int64_t found) const {
    return tensorflow::errors::OutOfRange("Expected ", elements_,
                                          " elements, but reached the end "
                                          "of the dataset after ",
                                          found,
                                          ". Repeat the dataset, "
                                          "or ask for fewer elements.");
  }

  const int graph_def_version_;
  int64_t elements_;
  std::vector<tensorflow::DataType> types_;
  std::vector<TensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("IpuDatasetBenchmark").Device(tensorflow::DEVICE_CPU),
                        DatasetBenchmarkOp);
REGISTER_KERNEL_BUILDER(Name("IpuDatasetExtract").Device(tensorflow::DEVICE_CPU), DatasetExtractOp);

}  // namespace
}  // namespace tensorflow_ipu
