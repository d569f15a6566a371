// How a collective is done by replicas in several processes.
#ifndef TENSORFLOW_IPU_ENGINE_COLLECTIVE_EXCHANGE_H_
#define TENSORFLOW_IPU_ENGINE_COLLECTIVE_EXCHANGE_H_

#include <string>
#include <vector>

#include "engine/collective.h"
#include "engine/instances.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Which members of a group of replicas are in which instances: consecutive ones, each of which has
// a run of members, from one to all of its replicas.
class GroupSpan {
 public:
  // Of `size` replicas from `first` on, of instances with `per_instance` each; this is `instance`.
  GroupSpan(int first, int size, int per_instance, int instance)
      : first_(first), size_(size), per_instance_(per_instance), instance_(instance) {}

  int size() const { return size_; }
  int first_instance() const { return first_ / per_instance_; }
  int instances() const { return (first_ + size_ - 1) / per_instance_ + 1 - first_instance(); }
  // The place of this instance among them.
  int place() const { return instance_ - first_instance(); }
  MemberRange MembersOf(int place) const;

 private:
  const int first_, size_, per_instance_, instance_;
};

// One collective of one group. The processes give each other what they need of the inputs; then
// each computes what one process with all replicas would, bit by bit. Where all members get the
// same, each process computes a part of it, and they exchange the parts; or if it is small, and
// there are many processes, the first computes it for all.
class CollectiveExchange {
 public:
  // Begins, and calls `done` at the end on a thread that can be kept. `members` are those in this
  // process, `last` is one of them. `key` and `label` are as of `Instances::Exchange`. All live
  // until then.
  static void Start(const Collective& collective, Instances* instances, const GroupSpan& span,
                    const std::string& key, const ExchangeLabel& label,
                    std::vector<tensorflow::OpKernelContext*> members,
                    tensorflow::OpKernelContext* last,
                    tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done);

 private:
  // Which process computes what, where all members get the same.
  enum class Work { kAllByAll, kAllByFirst, kPartByEach };

  // A tensor that arrived in one piece, whose place in an input is not.
  struct Packed {
    tensorflow::Tensor piece;
    size_t input;
    Extent extent;
  };

  CollectiveExchange(const Collective& collective, Instances* instances, const GroupSpan& span,
                     const std::string& key, const ExchangeLabel& label,
                     std::vector<tensorflow::OpKernelContext*> members,
                     tensorflow::OpKernelContext* last,
                     tensorflow::CancellationManager* cancellation,
                     tensorflow::StatusCallback done);

  tensorflow::Status GatherOwn();
  void ExchangeInputs();
  bool AreToMeet(int place) const;
  void GiveTo(int place, Parcel* parcel) const;
  void TakeFrom(int place, Parcel* parcel);
  void Run();
  void RunPart();
  void SetOutputs();
  // What each process needs of an input.
  Extent NeededAt(int place, const tensorflow::Tensor& given, int from) const;
  Work ChooseWork() const;
  // Elements of the output that a process computes, if not all compute all.
  int64_t PartBegin(int place) const;
  tensorflow::Tensor PartOf(const tensorflow::Tensor& tensor) const;
  // Sends and receives, then goes on with `next`, or ends with an error.
  void Exchange(const char* round, bool compare, std::vector<Parcel> parcels,
                void (CollectiveExchange::*next)());
  void End(const tensorflow::Status& status);

  const Collective& collective_;
  Instances* const instances_;
  const GroupSpan span_;
  const std::string key_;
  const ExchangeLabel label_;
  const std::vector<tensorflow::OpKernelContext*> members_;
  tensorflow::OpKernelContext* const last_;
  tensorflow::CancellationManager* const cancellation_;
  tensorflow::StatusCallback done_;
  Work work_ = Work::kAllByAll;
  std::vector<tensorflow::Tensor> own_;     // what the members here give
  std::vector<tensorflow::Tensor> inputs_;  // what all give
  std::vector<Packed> packed_;
  tensorflow::Tensor output_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_COLLECTIVE_EXCHANGE_H_
