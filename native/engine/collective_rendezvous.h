// Where the replicas of a launch meet for their collectives.
#ifndef TENSORFLOW_IPU_ENGINE_COLLECTIVE_RENDEZVOUS_H_
#define TENSORFLOW_IPU_ENGINE_COLLECTIVE_RENDEZVOUS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// What a collective does once all replicas of a group are there.
class Collective {
 public:
  virtual ~Collective() = default;

  // Sets the output of every member, given in the order of their replicas. Runs on one thread. All
  // inputs stay as they are until it returns.
  virtual tensorflow::Status Run(absl::Span<tensorflow::OpKernelContext* const> members) const = 0;
};

// One launch's meetings. As on the device, a program's collectives are in one order: the compiler
// chains them, so the k-th that a replica comes to meets the k-th of all others. A replica that
// comes to another op than the rest, or ends while others go on, is therefore noticed at once.
// No thread ever waits here: the last member of a group to come does the work of all. Thread-safe.
class CollectiveRendezvous : public std::enable_shared_from_this<CollectiveRendezvous> {
 public:
  using Done = tensorflow::AsyncOpKernel::DoneCallback;
  using Members = absl::Span<tensorflow::OpKernelContext* const>;

  explicit CollectiveRendezvous(int num_replicas);

  // `replica` has come to its next collective, which consecutive groups of `group_size` replicas
  // do together. Calls `done` when the output of `ctx` or an error is set.
  void Meet(const Collective& collective, int replica, int group_size,
            tensorflow::OpKernelContext* ctx, Done done);

  // `replica` has ended well. An error if others have come to a collective that it did not: that
  // is then what the launch fails with.
  tensorflow::Status End(int replica);

  // Ends all waiting, now and later, because of `cause`. What the waiting get is marked as a
  // consequence of it.
  void Abort(const tensorflow::Status& cause);

 private:
  // Tells one execution of a collective from any other.
  struct Place {
    const tensorflow::OpKernel* kernel = nullptr;
    tensorflow::FrameAndIter frame;
    tensorflow::TensorShape shape;
  };
  struct Waiter {
    int replica;
    tensorflow::OpKernelContext* ctx;
    tensorflow::CancellationToken token;
    Done done;
  };
  // The k-th collective of every replica.
  struct Slot {
    Place place;
    std::vector<int> arrived;
    std::vector<Waiter> waiters;
  };

  static Place PlaceOf(tensorflow::OpKernelContext* ctx);
  static std::string Describe(const Place& place);
  static tensorflow::Status CheckSame(const Slot& slot, int replica, const Place& place);

  tensorflow::Status Arrive(int replica, int group_size, tensorflow::OpKernelContext* ctx,
                            Done* done, std::vector<Waiter>* group)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status FindSlot(int replica, Place place, Slot** slot)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status CheckEnded(int replica, uint64_t index, const Place& place)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status WatchCancellation(tensorflow::OpKernelContext* ctx,
                                       tensorflow::CancellationToken* token);
  static void StopWatching(const Waiter& waiter);
  static void TakeGroup(Slot* slot, int first, int group_size, std::vector<Waiter>* group);
  static void RunGroup(const Collective& collective, tensorflow::OpKernelContext* last,
                       std::vector<Waiter>* group);

  const int num_replicas_;
  tensorflow::mutex mu_;
  // Slots from `first_slot_` on; those before are done.
  std::deque<Slot> slots_ TF_GUARDED_BY(mu_);
  uint64_t first_slot_ TF_GUARDED_BY(mu_) = 0;
  // Collectives that each replica has come to.
  std::vector<uint64_t> reached_ TF_GUARDED_BY(mu_);
  std::vector<bool> ended_ TF_GUARDED_BY(mu_);
  tensorflow::Status aborted_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_COLLECTIVE_RENDEZVOUS_H_
