#include "engine/one_thread.h"

#include <functional>
#include <memory>
#include <utility>

#include "engine/split_products.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/common_runtime/renamed_device.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::Device;
using tensorflow::OpKernel;
using tensorflow::Status;

// On the entry of a program; set by compiler/requests.py.
constexpr char kMark[] = "_ipu_one_thread";

// Does on the calling thread what is meant for other threads.
class InlinePool : public tensorflow::thread::ThreadPoolInterface {
 public:
  explicit InlinePool(int num_threads) : num_threads_(num_threads) {}

  void Schedule(std::function<void()> task) override { task(); }
  void ScheduleWithHint(std::function<void()> task, int, int) override { task(); }
  int NumThreads() const override { return num_threads_; }
  int CurrentThreadId() const override { return -1; }

 private:
  const int num_threads_;
};

// A CPU device under the name of another, and with its resources and allocators.
class OneThreadDevice {
 public:
  explicit OneThreadDevice(Device* original)
      : pool_(original->tensorflow_cpu_worker_threads()->num_threads),
        device_(tensorflow::RenamedDevice::NewRenamedDevice(original->name(), original,
                                                            /*owns_underlying=*/false,
                                                            /*isolate_session_state=*/false,
                                                            &pool_)) {}

  Device* device() { return device_.get(); }

 private:
  InlinePool pool_;  // outlives the other
  const std::unique_ptr<Device> device_;
};

class OneThreadExecutorFactory : public tensorflow::ExecutorFactory {
 public:
  Status NewExecutor(const tensorflow::LocalExecutorParams& params, const tensorflow::Graph& graph,
                     std::unique_ptr<tensorflow::Executor>* executor) override {
    auto device = std::make_shared<OneThreadDevice>(params.device);
    tensorflow::LocalExecutorParams changed = params;
    changed.device = device->device();
    if (params.device->tensorflow_cpu_worker_threads()->num_threads > 1) {
      changed.create_kernel = [params, version = graph.versions().producer()](
                                  const std::shared_ptr<const tensorflow::NodeProperties>& node,
                                  OpKernel** kernel) {
        return CreateSplitKernel(params, version, node, kernel);
      };
    }
    // The executor keeps this until its end, and the device with it.
    changed.delete_kernel = [device, original = params.delete_kernel](OpKernel* kernel) {
      original(kernel);
    };
    tensorflow::Executor* created = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::NewLocalExecutor(changed, graph, &created));
    executor->reset(created);
    return tensorflow::OkStatus();
  }
};

// TensorFlow keeps the factory for the life of the process.
[[maybe_unused]] const bool kRegistered = [] {
  tensorflow::ExecutorFactory::Register(kOneThreadExecutor, new OneThreadExecutorFactory);
  return true;
}();

}  // namespace

bool RunsOnOneThread(const Program& program) {
  const tensorflow::FunctionDef* entry = program.library->Find(program.entry);
  return program.replicas == 1 && entry != nullptr && entry->attr().count(kMark) > 0;
}

}  // namespace tensorflow_ipu
