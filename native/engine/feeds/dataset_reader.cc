#include "engine/feeds/dataset_reader.h"

#include <utility>

#include "tensorflow/core/common_runtime/renamed_device.h"
#include "tensorflow/core/data/root_dataset.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorContext;

namespace {

// Returns `dataset` as it is to be read. It belongs to the dataset, which keeps it for the next
// time: rewriting takes longer than reading a few elements.
tensorflow::StatusOr<DatasetBase*> Finalized(OpKernelContext* ctx, DatasetBase* dataset) {
  using Owned = tensorflow::core::RefCountPtr<DatasetBase>;
  return dataset->Finalize(ctx, [ctx, dataset]() -> tensorflow::StatusOr<Owned> {
    DatasetBase* finalized;
    TF_RETURN_IF_ERROR(tensorflow::data::FinalizeDataset(ctx, dataset, &finalized));
    return Owned(finalized);
  });
}

}  // namespace

Status DatasetReader::Create(OpKernelContext* ctx, const tensorflow::Tensor& variant,
                             int graph_def_version, std::unique_ptr<DatasetReader>* reader) {
  DatasetBase* dataset;
  TF_RETURN_IF_ERROR(tensorflow::data::GetDatasetFromVariantTensor(variant, &dataset));
  std::unique_ptr<DatasetReader> made(new DatasetReader);
  TF_RETURN_IF_ERROR(made->MakeRuntime(ctx, graph_def_version));
  dataset->Ref();
  made->dataset_.reset(dataset);
  DatasetBase* finalized;
  TF_ASSIGN_OR_RETURN(finalized, Finalized(ctx, dataset));
  made->context_ = std::make_unique<IteratorContext>(made->IteratorParams(ctx));
  TF_RETURN_IF_ERROR(finalized->MakeIterator(made->context_.get(), /*parent=*/nullptr, "IpuFeed",
                                             &made->iterator_));
  *reader = std::move(made);
  return tensorflow::OkStatus();
}

// A clone of the caller's function runtime would keep the caller's session from closing, so the
// reader has one of its own, over a device that shares the caller's resources.
Status DatasetReader::MakeRuntime(OpKernelContext* ctx, int graph_def_version) {
  tensorflow::FunctionLibraryRuntime* caller = ctx->function_library();
  if (caller == nullptr) {
    return tensorflow::errors::Internal("Reading a dataset needs a function runtime.");
  }
  auto* device = static_cast<tensorflow::Device*>(ctx->device());
  device_mgr_ = std::make_unique<tensorflow::StaticDeviceMgr>(
      tensorflow::RenamedDevice::NewRenamedDevice(device->name(), device,
                                                  /*owns_underlying=*/false,
                                                  /*isolate_session_state=*/false));
  library_ = std::make_unique<tensorflow::FunctionLibraryDefinition>(
      *caller->GetFunctionLibraryDefinition());
  const tensorflow::ConfigProto* config = caller->config_proto();
  const auto optimizer = config == nullptr ? tensorflow::OptimizerOptions()
                                           : config->graph_options().optimizer_options();
  process_runtime_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
      device_mgr_.get(), ctx->env(), config, graph_def_version, library_.get(), optimizer);
  runtime_ = process_runtime_->GetFLR(device->name());
  function_handles_ = std::make_unique<tensorflow::FunctionHandleCache>(runtime_);
  threads_ =
      std::make_unique<tensorflow::data::UnboundedThreadPool>(ctx->env(), "ipu_feed_dataset");
  return tensorflow::OkStatus();
}

IteratorContext::Params DatasetReader::IteratorParams(OpKernelContext* ctx) {
  IteratorContext::Params params(ctx);
  params.collective_executor = nullptr;
  params.cancellation_manager = &cancellation_;
  params.flr = runtime_;
  params.function_handle_cache = function_handles_.get();
  params.resource_mgr = &resources_;
  params.thread_factory = threads_->get_thread_factory();
  params.thread_pool = threads_.get();
  // The caller's runner belongs to its session, which may close before the reader ends.
  params.runner = [threads = threads_.get()](std::function<void()> closure) {
    threads->Schedule(std::move(closure));
  };
  params.warm_start = dataset_->options().warm_start();
  return params;
}

DatasetReader::~DatasetReader() { Cancel(); }

Status DatasetReader::GetNext(Element* element, bool* end) {
  element->clear();
  return iterator_->GetNext(context_.get(), element, end);
}

void DatasetReader::Cancel() { cancellation_.StartCancel(); }

}  // namespace tensorflow_ipu
