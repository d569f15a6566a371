#include "engine/collective_rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/collective_exchange.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::CancellationManager;
using tensorflow::CancellationToken;
using tensorflow::mutex_lock;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::StatusGroup;
using tensorflow::Tensor;
using tensorflow::errors::FailedPrecondition;
using tensorflow::strings::StrCat;

constexpr char kAdvice[] =
    " All replicas have to run the same collectives in the same order: do not let a condition or a "
    "number of iterations around one depend on what differs between them.";

// "replica 1" or "replicas 0, 2".
std::string Replicas(std::vector<int> replicas) {
  std::sort(replicas.begin(), replicas.end());
  return StrCat(replicas.size() == 1 ? "replica " : "replicas ", absl::StrJoin(replicas, ", "));
}

Status Derived(const Status& cause) {
  return StatusGroup::IsDerived(cause) ? cause : StatusGroup::MakeDerived(cause);
}

Status WasCancelled() {
  return Derived(tensorflow::errors::Cancelled("Waiting for other replicas was cancelled."));
}

}  // namespace

CollectiveRendezvous::CollectiveRendezvous(int num_replicas, Instances* instances, int ordinal,
                                           std::string fingerprint)
    : num_replicas_(num_replicas),
      instances_(instances),
      ordinal_(ordinal),
      fingerprint_(std::move(fingerprint)),
      reached_(num_replicas),
      ended_(num_replicas) {}

void CollectiveRendezvous::Meet(const Collective& collective, int replica, int group_size,
                                OpKernelContext* ctx, Done done) {
  Group group;
  Status status;
  {
    mutex_lock lock(mu_);
    status = Arrive(replica, group_size, ctx, &done, &group);
    if (status.ok() && group.waiters.empty()) return;
    if (!status.ok() && aborted_.ok()) aborted_ = Derived(status);
  }
  if (!status.ok()) {
    Abort(status);
    ctx->SetStatus(status);
    return done();
  }
  for (const Waiter& waiter : group.waiters) StopWatching(waiter.ctx, waiter.token);
  if (group.size > static_cast<int>(group.waiters.size())) {
    return RunBetweenInstances(collective, ctx, std::move(group));
  }
  EndGroup(RunGroup(collective, group), ctx, &group);
}

Status CollectiveRendezvous::Give(const Collective& collective, int replica, int group_size,
                                  bool takes, Part part, OpKernelContext* ctx, Meeting* meeting) {
  std::shared_ptr<Gathering> gathering;
  Status status;
  {
    mutex_lock lock(mu_);
    if (!aborted_.ok()) return aborted_;
    Slot* slot = nullptr;
    *meeting = {static_cast<int64_t>(reached_[replica]), replica - replica % group_size};
    status = FindSlot(replica, PlaceOf(ctx, part.shape()), &slot);
    if (status.ok()) {
      slot->arrived.push_back(replica);
      PopFullSlots();
      gathering = FindGathering(collective, group_size, *meeting);
      if (!takes) gathering->Skip();
      if (gathering->HaveAllCome()) gatherings_.erase({meeting->index, meeting->first});
    } else {
      aborted_ = Derived(status);
    }
  }
  if (status.ok()) status = gathering->Give(replica % group_size, std::move(part), ctx);
  if (!status.ok()) Abort(status);
  return status;
}

std::shared_ptr<Gathering> CollectiveRendezvous::FindGathering(const Collective& collective,
                                                               int size, const Meeting& meeting) {
  std::shared_ptr<Gathering>& gathering = gatherings_[{meeting.index, meeting.first}];
  if (gathering == nullptr) gathering = std::make_shared<Gathering>(size, collective.Begin(size));
  return gathering;
}

void CollectiveRendezvous::Take(const Meeting& meeting, int replica, OpKernelContext* ctx,
                                Done done) {
  Status status;
  std::shared_ptr<Gathering> gathering;
  Gathering::Waiter waiter{static_cast<int>(replica - meeting.first), ctx,
                           CancellationManager::kInvalidToken, std::move(done)};
  {
    mutex_lock lock(mu_);
    status = aborted_;
    if (status.ok()) status = WatchCancellation(ctx, &waiter.token);
    if (status.ok()) {
      const auto found = gatherings_.find({meeting.index, meeting.first});
      gathering = found->second;
      const bool waits = gathering->Wait(&waiter);
      if (gathering->HaveAllCome()) gatherings_.erase(found);
      if (waits) return;
    }
  }
  if (status.ok()) return gathering->Serve(std::move(waiter));
  ctx->SetStatus(status);
  waiter.done();
}

std::vector<OpKernelContext*> CollectiveRendezvous::MembersOf(const Group& group) {
  std::vector<OpKernelContext*> members;
  members.reserve(group.waiters.size());
  for (const Waiter& waiter : group.waiters) members.push_back(waiter.ctx);
  return members;
}

Status CollectiveRendezvous::RunGroup(const Collective& collective, const Group& group) {
  const std::vector<OpKernelContext*> members = MembersOf(group);
  std::vector<Tensor> inputs;
  for (OpKernelContext* member : members) TF_RETURN_IF_ERROR(collective.Give(member, &inputs));
  return collective.Run(inputs, /*first=*/0, members);
}

void CollectiveRendezvous::RunBetweenInstances(const Collective& collective, OpKernelContext* last,
                                               Group group) {
  const GroupSpan span(group.first, group.size, num_replicas_, instances_->index());
  const std::string key = StrCat(Name(), ";", group.index, ";", group.first);
  const ExchangeLabel label{LabelOf(group.place), fingerprint_, /*layout=*/""};
  std::vector<OpKernelContext*> members = MembersOf(group);
  auto shared = std::make_shared<Group>(std::move(group));
  CollectiveExchange::Start(collective, instances_, span, key, label, std::move(members), last,
                            &exchanges_,
                            [self = shared_from_this(), last, shared](const Status& status) {
                              self->KeepFault(status);
                              self->EndGroup(self->CauseOf(status), last, shared.get());
                            });
}

std::string CollectiveRendezvous::Name() {
  mutex_lock lock(mu_);
  if (name_.empty()) {
    const std::string device = StrCat("ipu;", ordinal_);
    name_ = StrCat(device, ";", Instances::Get()->Next(device));
  }
  return name_;
}

// An exchange that was cancelled because of an error ends with that.
Status CollectiveRendezvous::CauseOf(const Status& status) {
  mutex_lock lock(mu_);
  return tensorflow::errors::IsCancelled(status) && !aborted_.ok() ? aborted_ : status;
}

void CollectiveRendezvous::KeepFault(const Status& status) {
  mutex_lock lock(mu_);
  if (!tensorflow::errors::IsCancelled(status)) fault_.Update(status);
}

void CollectiveRendezvous::Tell(const Status& status) {
  Instances* instances = Instances::Get();
  if (status.ok() || instances == nullptr) return;
  std::string text;
  {
    mutex_lock lock(mu_);
    if (name_.empty() && fingerprint_.empty()) return;
    if (std::exchange(told_, true)) return;
    text = fault_.ok() ? StrCat("Instance ", instances->watch().NameOf(instances->index()),
                                " of the program has failed: ", status.message())
                       : std::string(fault_.message());  // names the instance that it comes from
  }
  instances->watch().Tell(Name(), status, text);
}

void CollectiveRendezvous::EndGroup(const Status& status, OpKernelContext* last, Group* group) {
  std::vector<Waiter> waiters = std::move(group->waiters);
  // The replica whose thread this is goes last: until it goes on, its kernels live.
  const auto own = std::find_if(waiters.begin(), waiters.end(),
                                [last](const Waiter& waiter) { return waiter.ctx == last; });
  std::swap(*own, waiters.back());
  for (Waiter& waiter : waiters) {
    waiter.ctx->SetStatus(waiter.ctx == last || status.ok() ? status : Derived(status));
    const Done done = std::move(waiter.done);
    done();
  }
}

Status CollectiveRendezvous::Arrive(int replica, int group_size, OpKernelContext* ctx, Done* done,
                                    Group* group) {
  if (!aborted_.ok()) return aborted_;
  Slot* slot = nullptr;
  const uint64_t index = reached_[replica];
  const bool has_inputs = ctx->num_inputs() > 0;
  const tensorflow::TensorShape shape =
      has_inputs ? ctx->input(0).shape() : tensorflow::TensorShape();
  TF_RETURN_IF_ERROR(FindSlot(replica, PlaceOf(ctx, shape), &slot));
  const int number = FirstHere() + replica;
  const int first = number - number % group_size;
  // Those of the group that are in this process.
  const int begin = std::max(first - FirstHere(), 0);
  const int end = std::min(first + group_size - FirstHere(), num_replicas_);
  const auto is_member = [&](int other) { return other >= begin && other < end; };
  const bool completes =
      std::count_if(slot->arrived.begin(), slot->arrived.end(), is_member) == end - begin - 1;
  CancellationToken token = CancellationManager::kInvalidToken;
  if (!completes) TF_RETURN_IF_ERROR(WatchCancellation(ctx, &token));
  slot->arrived.push_back(replica);
  slot->waiters.push_back({replica, ctx, token, std::move(*done)});
  if (completes) {
    TakeGroup(slot, begin, end, group);
    group->index = index;
    group->first = first;
    group->size = group_size;
    group->place = slot->place;
  }
  PopFullSlots();
  return tensorflow::OkStatus();
}

void CollectiveRendezvous::PopFullSlots() {
  while (!slots_.empty() && static_cast<int>(slots_.front().arrived.size()) == num_replicas_) {
    slots_.pop_front();
    ++first_slot_;
  }
}

// The slot that a replica has come to, after checking that the others are there as well or will be.
Status CollectiveRendezvous::FindSlot(int replica, Place place, Slot** slot) {
  const uint64_t index = reached_[replica]++;
  TF_RETURN_IF_ERROR(CheckEnded(replica, index, place));
  while (first_slot_ + slots_.size() <= index) slots_.emplace_back();
  *slot = &slots_[index - first_slot_];
  if (!(*slot)->arrived.empty()) return CheckSame(**slot, replica, place);
  (*slot)->place = std::move(place);
  return tensorflow::OkStatus();
}

Status CollectiveRendezvous::CheckEnded(int replica, uint64_t index, const Place& place) {
  std::vector<int> gone;
  for (int other = 0; other < num_replicas_; ++other) {
    if (ended_[other] && reached_[other] <= index) gone.push_back(other);
  }
  if (gone.empty()) return tensorflow::OkStatus();
  return FailedPrecondition("The replicas of the program have diverged: replica ", replica,
                            " waits at ", Describe(place), ", but ", Replicas(gone),
                            " ended without coming to it.", kAdvice);
}

Status CollectiveRendezvous::CheckSame(const Slot& slot, int replica, const Place& place) {
  const Place& other = slot.place;
  const bool same_op = place.kernel == other.kernel || place.kernel->name() == other.kernel->name();
  if (same_op && place.frame == other.frame && place.shape == other.shape) {
    return tensorflow::OkStatus();
  }
  const bool same_text = Describe(place) == Describe(other);
  return FailedPrecondition("The replicas of the program have diverged: ", Replicas(slot.arrived),
                            " came to ", Describe(other), ", but replica ", replica, " came to ",
                            same_text ? "another iteration of it" : Describe(place), ".", kAdvice);
}

// Kernels know their type and node; the shape is what else has to agree.
CollectiveRendezvous::Place CollectiveRendezvous::PlaceOf(OpKernelContext* ctx,
                                                          const tensorflow::TensorShape& shape) {
  return {&ctx->op_kernel(), ctx->frame_iter(), shape};
}

std::string CollectiveRendezvous::Describe(const Place& place) {
  return TextOf(place, tensorflow::FormatNodeDefForError(place.kernel->def()));
}

// Names of functions need not be the same in all instances.
std::string CollectiveRendezvous::LabelOf(const Place& place) {
  return TextOf(place, place.kernel->name());
}

std::string CollectiveRendezvous::TextOf(const Place& place, const std::string& name) {
  const tensorflow::OpKernel& kernel = *place.kernel;
  const auto op = absl::StripSuffix(kernel.type_string(), "Start");
  const std::string of = kernel.num_inputs() == 0
                             ? ""
                             : StrCat(" of ", tensorflow::DataTypeString(kernel.input_type(0)),
                                      place.shape.DebugString());
  return StrCat("the collective ", name, " (", absl::StripSuffix(op, "OfProduct"), of, ")");
}

// Aborts everything when `ctx` is cancelled. An error in the same replica cancels too, so waiting
// never outlives its replica.
Status CollectiveRendezvous::WatchCancellation(OpKernelContext* ctx, CancellationToken* token) {
  CancellationManager* manager = ctx->cancellation_manager();
  if (manager == nullptr) return tensorflow::OkStatus();
  const CancellationToken mine = manager->get_cancellation_token();
  const bool registered = manager->RegisterCallback(mine, [weak = weak_from_this()] {
    if (auto rendezvous = weak.lock()) rendezvous->Abort(WasCancelled());
  });
  if (!registered) return WasCancelled();
  *token = mine;
  return tensorflow::OkStatus();
}

// Moves the waiters that are replicas [begin, end) of this process out of a slot, in order.
void CollectiveRendezvous::TakeGroup(Slot* slot, int begin, int end, Group* group) {
  const auto in_group = [&](const Waiter& waiter) {
    return waiter.replica >= begin && waiter.replica < end;
  };
  std::vector<Waiter>& waiters = group->waiters;
  const auto middle = std::partition(slot->waiters.begin(), slot->waiters.end(),
                                     [&](const Waiter& waiter) { return !in_group(waiter); });
  waiters.assign(std::make_move_iterator(middle), std::make_move_iterator(slot->waiters.end()));
  slot->waiters.erase(middle, slot->waiters.end());
  std::sort(waiters.begin(), waiters.end(),
            [](const Waiter& a, const Waiter& b) { return a.replica < b.replica; });
}

Status CollectiveRendezvous::End(int replica) {
  Status status;
  {
    mutex_lock lock(mu_);
    ended_[replica] = true;
    if (!aborted_.ok()) return tensorflow::OkStatus();  // others report the cause
    std::vector<int> ahead;
    for (int other = 0; other < num_replicas_; ++other) {
      if (reached_[other] > reached_[replica]) ahead.push_back(other);
    }
    if (ahead.empty()) return status;
    // A slot is kept until all replicas have come to it.
    const Slot& slot = slots_[reached_[replica] - first_slot_];
    status =
        FailedPrecondition("The replicas of the program have diverged: ", Replicas(ahead),
                           ahead.size() == 1 ? " waits at " : " wait at ", Describe(slot.place),
                           ", but replica ", replica, " ended without coming to it.", kAdvice);
  }
  Abort(status);
  return status;
}

void CollectiveRendezvous::Abort(const Status& cause) {
  std::vector<Waiter> waiters;
  Status status = Derived(cause);
  {
    mutex_lock lock(mu_);
    if (aborted_.ok()) aborted_ = status;
    status = aborted_;
    for (Slot& slot : slots_) {
      std::move(slot.waiters.begin(), slot.waiters.end(), std::back_inserter(waiters));
      slot.waiters.clear();
    }
    for (const auto& [key, gathering] : gatherings_) {
      for (Gathering::Waiter& waiter : gathering->TakeWaiters()) {
        waiters.push_back({waiter.member, waiter.ctx, waiter.token, std::move(waiter.done)});
      }
    }
  }
  exchanges_.StartCancel();
  for (Waiter& waiter : waiters) {
    StopWatching(waiter.ctx, waiter.token);
    waiter.ctx->SetStatus(status);
    const Done done = std::move(waiter.done);
    done();
  }
}

}  // namespace tensorflow_ipu
