// Reads a tf.data dataset with threads of its own.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_DATASET_READER_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_DATASET_READER_H_

#include <memory>
#include <vector>

#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/data/unbounded_thread_pool.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function_handle_cache.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tensorflow_ipu {

// One element of a dataset: its flattened components.
using Element = std::vector<tensorflow::Tensor>;

// An iterator over a dataset, with the function runtime, threads and cancellation that it needs.
// It may be used after the op that created it has ended, but not after that op's device has gone.
class DatasetReader {
 public:
  // Makes a reader of the dataset in `variant`, starting at its first element. `graph_def_version`
  // is the producer version that the dataset's functions were built with.
  static tensorflow::Status Create(tensorflow::OpKernelContext* ctx,
                                   const tensorflow::Tensor& variant, int graph_def_version,
                                   std::unique_ptr<DatasetReader>* reader);
  ~DatasetReader();

  // Reads the next element, blocking until there is one. At the end of the dataset sets `*end`
  // and leaves `element` empty. One caller at a time.
  tensorflow::Status GetNext(Element* element, bool* end);

  // Wakes a blocked GetNext with an error, and makes every later one fail. From any thread.
  void Cancel();

 private:
  DatasetReader() = default;
  tensorflow::Status MakeRuntime(tensorflow::OpKernelContext* ctx, int graph_def_version);
  tensorflow::data::IteratorContext::Params IteratorParams(tensorflow::OpKernelContext* ctx);

  // In order of construction: each member uses only those above it.
  tensorflow::CancellationManager cancellation_;
  std::unique_ptr<tensorflow::DeviceMgr> device_mgr_;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> library_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> process_runtime_;
  tensorflow::FunctionLibraryRuntime* runtime_ = nullptr;
  tensorflow::ResourceMgr resources_;
  std::unique_ptr<tensorflow::FunctionHandleCache> function_handles_;
  std::unique_ptr<tensorflow::data::UnboundedThreadPool> threads_;
  tensorflow::core::RefCountPtr<tensorflow::data::DatasetBase> dataset_;
  std::unique_ptr<tensorflow::data::IteratorContext> context_;
  std::unique_ptr<tensorflow::data::IteratorBase> iterator_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_DATASET_READER_H_
