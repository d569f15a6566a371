// Where the replicas of a launch meet for their collectives.
#ifndef TENSORFLOW_IPU_ENGINE_COLLECTIVE_RENDEZVOUS_H_
#define TENSORFLOW_IPU_ENGINE_COLLECTIVE_RENDEZVOUS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/collective.h"
#include "engine/gathering.h"
#include "engine/instances.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// One launch's meetings. As on the device, a program's collectives are in one order: the compiler
// chains them, so the k-th that a replica comes to meets the k-th of all others. A replica that
// comes to another op than the rest, or ends while others go on, is therefore noticed at once.
// No thread ever waits here: the last member of a group to come does the work of all. Where a group
// has replicas in other processes, their inputs are exchanged first, so that each process computes
// what one with all replicas would, bit by bit. Thread-safe.
class CollectiveRendezvous : public std::enable_shared_from_this<CollectiveRendezvous> {
 public:
  using Done = tensorflow::AsyncOpKernel::DoneCallback;

  // `num_replicas` run in this process, on device `ordinal`. With `instances`, as many run in each
  // of the others, of a program with the same `fingerprint`.
  CollectiveRendezvous(int num_replicas, Instances* instances, int ordinal,
                       std::string fingerprint);

  // `replica` has come to its next collective, which consecutive groups of `group_size` replicas
  // of all instances do together. Calls `done` when the output of `ctx` or an error is set.
  void Meet(const Collective& collective, int replica, int group_size,
            tensorflow::OpKernelContext* ctx, Done done);

  // Where a replica finds the result of a collective.
  struct Meeting {
    int64_t index, first;  // of the collective, and of the group's members
  };

  // `replica`, whose kernel has `ctx`, has come to its next collective, gives its part, and goes
  // on. Sets `meeting` for Take, which is next if the replica `takes` the result.
  tensorflow::Status Give(const Collective& collective, int replica, int group_size, bool takes,
                          Part part, tensorflow::OpKernelContext* ctx, Meeting* meeting);

  // Calls `done` when all members of a group have given their parts, and the output of `ctx` or an
  // error is set. Once for each member that takes the result.
  void Take(const Meeting& meeting, int replica, tensorflow::OpKernelContext* ctx, Done done);

  // `replica` has ended well. An error if others have come to a collective that it did not: that
  // is then what the launch fails with.
  tensorflow::Status End(int replica);

  // The name of this launch, by which the instances that were joined know it. Launches in which
  // they do not meet have none, as not all instances have to run them.
  std::string Name();

  // Ends all waiting, now and later, because of `cause`. What the waiting get is marked as a
  // consequence of it.
  void Abort(const tensorflow::Status& cause);

  // The launch ends with `status`. If that is an error, the instances that meet this one in the
  // launch are told, once: they wait for it.
  void Tell(const tensorflow::Status& status);

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
  // Those that do a collective together, as far as they are in this process.
  struct Group {
    std::vector<Waiter> waiters;  // in the order of their replicas
    uint64_t index = 0;           // of the collective
    int first = 0, size = 0;      // replicas of all instances
    Place place;
  };
  // The k-th collective of every replica.
  struct Slot {
    Place place;
    std::vector<int> arrived;
    std::vector<Waiter> waiters;
  };

  static Place PlaceOf(tensorflow::OpKernelContext* ctx, const tensorflow::TensorShape& shape);
  // With the tags of an error's text, and as other instances are told.
  static std::string Describe(const Place& place);
  static std::string LabelOf(const Place& place);
  static std::string TextOf(const Place& place, const std::string& name);
  static tensorflow::Status CheckSame(const Slot& slot, int replica, const Place& place);

  tensorflow::Status Arrive(int replica, int group_size, tensorflow::OpKernelContext* ctx,
                            Done* done, Group* group) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PopFullSlots() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Gathering> FindGathering(const Collective& collective, int size,
                                           const Meeting& meeting) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status FindSlot(int replica, Place place, Slot** slot)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status CheckEnded(int replica, uint64_t index, const Place& place)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status WatchCancellation(tensorflow::OpKernelContext* ctx,
                                       tensorflow::CancellationToken* token);
  static void TakeGroup(Slot* slot, int begin, int end, Group* group);
  int FirstHere() const { return instances_ == nullptr ? 0 : instances_->index() * num_replicas_; }
  // Does the work of a group, all members of which are in this process.
  static tensorflow::Status RunGroup(const Collective& collective, const Group& group);
  // Does it together with other processes.
  void RunBetweenInstances(const Collective& collective, tensorflow::OpKernelContext* last,
                           Group group);
  static std::vector<tensorflow::OpKernelContext*> MembersOf(const Group& group);
  void KeepFault(const tensorflow::Status& status);
  tensorflow::Status CauseOf(const tensorflow::Status& status);
  static void EndGroup(const tensorflow::Status& status, tensorflow::OpKernelContext* last,
                       Group* group);

  const int num_replicas_;
  Instances* const instances_;  // null when the program runs in one process
  const int ordinal_;
  const std::string fingerprint_;  // of the program; empty if instances do not meet in it
  // Ends exchanges with other instances.
  tensorflow::CancellationManager exchanges_;
  tensorflow::mutex mu_;
  // Slots from `first_slot_` on; those before are done.
  std::deque<Slot> slots_ TF_GUARDED_BY(mu_);
  uint64_t first_slot_ TF_GUARDED_BY(mu_) = 0;
  // By collective and first member. One goes when all members have come for its result.
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<Gathering>> gatherings_ TF_GUARDED_BY(mu_);
  std::string name_ TF_GUARDED_BY(mu_);
  // Collectives that each replica has come to.
  std::vector<uint64_t> reached_ TF_GUARDED_BY(mu_);
  std::vector<bool> ended_ TF_GUARDED_BY(mu_);
  tensorflow::Status aborted_ TF_GUARDED_BY(mu_);
  // The first error of an exchange with other instances.
  tensorflow::Status fault_ TF_GUARDED_BY(mu_);
  bool told_ TF_GUARDED_BY(mu_) = false;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_COLLECTIVE_RENDEZVOUS_H_
