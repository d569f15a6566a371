// Tells ThreadSanitizer of the order that TensorFlow keeps.
//
// TensorFlow is not instrumented, so ThreadSanitizer sees none of its locks and atomics, and takes
// everything that one thread hands to another through TensorFlow for a race. This library is
// preloaded. Its functions come before TensorFlow's of the same names, call them, and say what they
// guarantee, which is this and no more:
//
//   * locks exclude each other;
//   * what a thread waits for with a notification comes before it goes on;
//   * a closure that is given to a thread pool runs after that, and parallel work is over when the
//     call returns;
//   * an op begins after the ops that made its inputs, and, of its own replica, after those that
//     have ended; a replica ends after its ops;
//   * an op that is given the buffer of an input for its output is the last one to use it.
//
// The rule for ops says a little too much: two ops of one replica that depend on nothing of each
// other are seen to race only where they do run at the same time.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/common_runtime/threadpool_device.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/work_sharder.h"
#include "tsl/platform/mutex.h"

namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
struct PointerOf;
template <typename Result, typename Class, typename... Arguments>
struct PointerOf<Result (Class::*)(Arguments...)> {
  using Type = Result (*)(Class*, Arguments...);
};
template <typename Result, typename Class, typename... Arguments>
struct PointerOf<Result (Class::*)(Arguments...) const> {
  using Type = Result (*)(const Class*, Arguments...);
};
template <typename Result, typename... Arguments>
struct PointerOf<Result (*)(Arguments...)> {
  using Type = Result (*)(Arguments...);
};

// TensorFlow's function of this name. By hand, as TensorFlow is not loaded when this library is.
void* Find(const char* name) {
  void* library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  void* address = library == nullptr ? nullptr : dlsym(library, name);
  if (address == nullptr) {
    std::fprintf(stderr, "TensorFlow has no function %s.\n", name);
    std::abort();
  }
  return address;
}

// TensorFlow's function of the name of one that is defined here.
template <auto kFunction>
auto Original() {
  using Pointer = typename PointerOf<decltype(kFunction)>::Type;
  static const Pointer original = [] {
    Dl_info here = {};
    dladdr(reinterpret_cast<void*>((Pointer)kFunction), &here);
    return reinterpret_cast<Pointer>(Find(here.dli_sname));
  }();
  return original;
}

const Tensor& Input(OpKernelContext* ctx, int index) {
  using Pointer = const Tensor& (*)(const OpKernelContext*, int);
  static const auto input =
      reinterpret_cast<Pointer>(Find("_ZNK10tensorflow15OpKernelContext5inputEi"));
  return input(ctx, index);
}

// Memory that stands for one order: what came before a Release comes before what follows Acquire.
using Order = std::shared_ptr<char>;

Order NewOrder() {
  Order order = std::make_shared<char>();
  __tsan_release(order.get());
  return order;
}

// `work` for parts of a range, after `begin` and before `end`.
std::function<void(int64_t, int64_t)> Ordered(const Order& begin, const Order& end,
                                              const std::function<void(int64_t, int64_t)>& work) {
  return [begin, end, &work](int64_t first, int64_t last) {
    __tsan_acquire(begin.get());
    work(first, last);
    __tsan_release(end.get());
  };
}

// Two orders for each buffer, as readers are not ordered among themselves: replicas share
// constants. Its first byte stands for what was written to it, its second for what was read.
char* Written(const Tensor& tensor) {
  return static_cast<char*>(const_cast<void*>(tensorflow::DMAHelper::base(&tensor)));
}

char* Read(const Tensor& tensor) { return Written(tensor) + 1; }

// noexcept, or its caller refers to TensorFlow's destructor of tensors, which is not loaded yet.
void BeginWriting(const Tensor& tensor) noexcept {
  if (Written(tensor) != nullptr) __tsan_acquire(Read(tensor));
}

template <typename Act>
void ForInputs(OpKernelContext* ctx, const Act& act) {
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    if (!ctx->has_input(i) || ctx->input_is_ref(i)) continue;
    if (Written(Input(ctx, i)) != nullptr) act(Input(ctx, i));
  }
}

// An op that is given the buffer of an input has that input no more.
bool IsInput(OpKernelContext* ctx, const Tensor& output) {
  bool found = false;
  ForInputs(ctx, [&](const Tensor& input) { found |= Written(input) == Written(output); });
  return found;
}

// In a launch, this is the context of the replica.
void* ReplicaOf(OpKernelContext* ctx) { return ctx->collective_executor(); }

void BeginOp(OpKernelContext* ctx) {
  if (ReplicaOf(ctx) != nullptr) __tsan_acquire(ReplicaOf(ctx));
  ForInputs(ctx, [](const Tensor& input) { __tsan_acquire(Written(input)); });
}

void EndOp(OpKernelContext* ctx) {
  ForInputs(ctx, [](const Tensor& input) { __tsan_release(Read(input)); });
  for (int i = 0; i < ctx->num_outputs(); ++i) {
    const Tensor* output = ctx->mutable_output(i);
    if (output == nullptr || Written(*output) == nullptr || IsInput(ctx, *output)) continue;
    __tsan_release(Written(*output));
  }
  if (ReplicaOf(ctx) != nullptr) __tsan_release(ReplicaOf(ctx));
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Notification::Notify() {
  __tsan_release(this);
  Original<&Notification::Notify>()(this);
}

void Notification::WaitForNotification() const {
  Original<&Notification::WaitForNotification>()(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool notified = Original<&Notification::WaitForNotificationWithTimeout>()(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl

namespace tsl {

// The mutex and all that it is made of have the same address.
void mutex::lock() {
  __tsan_mutex_pre_lock(this, 0);
  Original<&mutex::lock>()(this);
  __tsan_mutex_post_lock(this, 0, 0);
}

bool mutex::try_lock() {
  __tsan_mutex_pre_lock(this, __tsan_mutex_try_lock);
  const bool locked = Original<&mutex::try_lock>()(this);
  const unsigned failed = locked ? 0 : __tsan_mutex_try_lock_failed;
  __tsan_mutex_post_lock(this, __tsan_mutex_try_lock | failed, 0);
  return locked;
}

void mutex::unlock() {
  __tsan_mutex_pre_unlock(this, 0);
  Original<&mutex::unlock>()(this);
  __tsan_mutex_post_unlock(this, 0);
}

void mutex::lock_shared() {
  __tsan_mutex_pre_lock(this, __tsan_mutex_read_lock);
  Original<&mutex::lock_shared>()(this);
  __tsan_mutex_post_lock(this, __tsan_mutex_read_lock, 0);
}

bool mutex::try_lock_shared() {
  __tsan_mutex_pre_lock(this, __tsan_mutex_try_read_lock);
  const bool locked = Original<&mutex::try_lock_shared>()(this);
  const unsigned failed = locked ? 0 : __tsan_mutex_try_lock_failed;
  __tsan_mutex_post_lock(this, __tsan_mutex_try_read_lock | failed, 0);
  return locked;
}

void mutex::unlock_shared() {
  __tsan_mutex_pre_unlock(this, __tsan_mutex_read_lock);
  Original<&mutex::unlock_shared>()(this);
  __tsan_mutex_post_unlock(this, __tsan_mutex_read_lock);
}

// Waiting gives the mutex up and takes it again.
void condition_variable::wait(class mutex_lock& lock) {
  using Wait = void (condition_variable::*)(class mutex_lock&);
  __tsan_mutex_pre_unlock(lock.mutex(), 0);
  __tsan_mutex_post_unlock(lock.mutex(), 0);
  __tsan_mutex_pre_lock(lock.mutex(), 0);
  Original<static_cast<Wait>(&condition_variable::wait)>()(this, lock);
  __tsan_mutex_post_lock(lock.mutex(), 0, 0);
}

namespace internal {

std::cv_status wait_until_system_clock(CVData* cv, MuData* mu,
                                       const std::chrono::system_clock::time_point timeout) {
  __tsan_mutex_pre_unlock(mu, 0);
  __tsan_mutex_post_unlock(mu, 0);
  __tsan_mutex_pre_lock(mu, 0);
  const std::cv_status status = Original<&wait_until_system_clock>()(cv, mu, timeout);
  __tsan_mutex_post_lock(mu, 0, 0);
  return status;
}

}  // namespace internal

namespace thread {

void ThreadPool::Schedule(std::function<void()> closure) {
  Original<&ThreadPool::Schedule>()(this, [order = NewOrder(), closure = std::move(closure)] {
    __tsan_acquire(order.get());
    closure();
  });
}

void ThreadPool::ParallelFor(int64_t total, int64_t cost,
                             const std::function<void(int64_t, int64_t)>& work) {
  using ParallelFor =
      void (ThreadPool::*)(int64_t, int64_t, const std::function<void(int64_t, int64_t)>&);
  const Order begin = NewOrder(), end = NewOrder();
  Original<static_cast<ParallelFor>(&ThreadPool::ParallelFor)>()(this, total, cost,
                                                                 Ordered(begin, end, work));
  __tsan_acquire(end.get());
}

void ThreadPool::ParallelFor(int64_t total, const SchedulingParams& params,
                             const std::function<void(int64_t, int64_t)>& work) {
  using ParallelFor = void (ThreadPool::*)(int64_t, const SchedulingParams&,
                                           const std::function<void(int64_t, int64_t)>&);
  const Order begin = NewOrder(), end = NewOrder();
  Original<static_cast<ParallelFor>(&ThreadPool::ParallelFor)>()(this, total, params,
                                                                 Ordered(begin, end, work));
  __tsan_acquire(end.get());
}

}  // namespace thread
}  // namespace tsl

namespace tensorflow {

void Shard(int max_parallelism, thread::ThreadPool* workers, int64_t total, int64_t cost,
           std::function<void(int64_t, int64_t)> work) {
  const Order begin = NewOrder(), end = NewOrder();
  Original<&Shard>()(max_parallelism, workers, total, cost, Ordered(begin, end, work));
  __tsan_acquire(end.get());
}

void ThreadPoolDevice::Compute(OpKernel* kernel, OpKernelContext* ctx) {
  BeginOp(ctx);
  Original<&ThreadPoolDevice::Compute>()(this, kernel, ctx);
  EndOp(ctx);
}

void ThreadPoolDevice::ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* ctx,
                                    AsyncOpKernel::DoneCallback done) {
  BeginOp(ctx);
  Original<&ThreadPoolDevice::ComputeAsync>()(this, kernel, ctx, [ctx, done = std::move(done)] {
    EndOp(ctx);
    done();
  });
}

void ProcessFunctionLibraryRuntime::Run(const FunctionLibraryRuntime::Options& options,
                                        FunctionLibraryRuntime::Handle handle,
                                        gtl::ArraySlice<Tensor> arguments,
                                        std::vector<Tensor>* results,
                                        FunctionLibraryRuntime::DoneCallback done) const {
  using Class = ProcessFunctionLibraryRuntime;
  using Run = void (Class::*)(const FunctionLibraryRuntime::Options&,
                              FunctionLibraryRuntime::Handle, gtl::ArraySlice<Tensor>,
                              std::vector<Tensor>*, FunctionLibraryRuntime::DoneCallback) const;
  if (void* replica = options.collective_executor) {
    done = [replica, done = std::move(done)](const Status& status) {
      __tsan_acquire(replica);
      done(status);
    };
  }
  Original<static_cast<Run>(&Class::Run)>()(this, options, handle, arguments, results,
                                            std::move(done));
}

std::unique_ptr<Tensor> OpKernelContext::forward_input(int input_index, int output_index,
                                                       DataType output_dtype,
                                                       const TensorShape& output_shape,
                                                       MemoryType output_memory_type,
                                                       const AllocatorAttributes& output_attr) {
  std::unique_ptr<Tensor> forwarded = Original<&OpKernelContext::forward_input>()(
      this, input_index, output_index, output_dtype, output_shape, output_memory_type, output_attr);
  if (forwarded != nullptr) BeginWriting(*forwarded);
  return forwarded;
}

}  // namespace tensorflow
