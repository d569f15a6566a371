// One collective of one group of replicas, to which each gives its part when it comes.
#ifndef TENSORFLOW_IPU_ENGINE_GATHERING_H_
#define TENSORFLOW_IPU_ENGINE_GATHERING_H_

#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "engine/collective.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Adds the parts of a group in the order of its members, whenever they come: a part that comes
// before its turn is kept until then. Members wait for the result apart from giving their part, so
// one that has given all of its parts need not be alive until the others have. No thread waits.
// Thread-safe.
class Gathering {
 public:
  using Done = tensorflow::AsyncOpKernel::DoneCallback;

  // A member that waits for the result. `token` is that of its cancellation.
  struct Waiter {
    int member;
    tensorflow::OpKernelContext* ctx;
    tensorflow::CancellationToken token;
    Done done;
  };

  // Of `size` members, whose parts `accumulation` adds.
  Gathering(int size, std::unique_ptr<Accumulation> accumulation);

  // Takes the part of `member`, whose kernel has `ctx`. When the last part is there, those who wait
  // go on.
  tensorflow::Status Give(int member, Part part, tensorflow::OpKernelContext* ctx);

  // Keeps `waiter` until the result is there. Returns false, and leaves it alone, if that is so
  // already: then Serve is next.
  bool Wait(Waiter* waiter);

  // Has a waiter go on with the result, or the error.
  void Serve(Waiter waiter);

  // A member will not come for the result.
  void Skip();

  // Whether all members have come for the result, or will not.
  bool HaveAllCome();

  // Takes out those who wait.
  std::vector<Waiter> TakeWaiters();

 private:
  tensorflow::Status AddInOrder(tensorflow::OpKernelContext* ctx);

  const int size_;
  const std::unique_ptr<Accumulation> accumulation_;  // used by one thread at a time until complete
  tensorflow::mutex mu_;
  std::vector<absl::optional<Part>> parts_ TF_GUARDED_BY(mu_);  // those before their turn
  int added_ TF_GUARDED_BY(mu_) = 0;
  int came_ TF_GUARDED_BY(mu_) = 0;
  bool is_adding_ TF_GUARDED_BY(mu_) = false;
  tensorflow::Status failed_ TF_GUARDED_BY(mu_);
  std::vector<Waiter> waiters_ TF_GUARDED_BY(mu_);
};

// Lets the cancellation of a waiter's replica go. One that has begun finds the waiter gone.
void StopWatching(tensorflow::OpKernelContext* ctx, tensorflow::CancellationToken token);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_GATHERING_H_
