#include "engine/feeds/feed_manager.h"

#include <utility>

#include "engine/interpreter.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

using tensorflow::mutex_lock;
using tensorflow::Status;

namespace {

// How long a dataset may take to stop that nobody wants to wait for, and how often who waits looks
// whether they still want to.
constexpr int64_t kPatienceMicroseconds = 500 * 1000;
constexpr int64_t kPollMicroseconds = 50 * 1000;

Status Deleted(const std::string& name) {
  return tensorflow::errors::Cancelled("The infeed ", name, " has been deleted.");
}

// What a dataset waits for may never come. Then its thread uses the infeed for as long as the
// process lives.
void Leave(std::shared_ptr<Infeed> infeed) {
  infeed->Leave();
  new std::shared_ptr<Infeed>(std::move(infeed));
}

}  // namespace

// Never destroyed: reading threads may outlive the static objects of the library.
FeedManager* FeedManager::All() {
  static FeedManager* managers = [] {
    auto* made = new FeedManager[kMaxDevices];
    for (int i = 0; i < kMaxDevices; ++i) made[i].ordinal_ = i;
    return made;
  }();
  return managers;
}

FeedManager* FeedManager::Get(int ordinal) {
  return ordinal < 0 || ordinal >= kMaxDevices ? nullptr : &All()[ordinal];
}

void FeedManager::ResetAll() {
  for (int i = 0; i < kMaxDevices; ++i) All()[i].Reset();
}

void FeedManager::ShutDown() {
  std::vector<std::shared_ptr<Infeed>> infeeds;
  for (int i = 0; i < kMaxDevices; ++i) {
    for (auto& infeed : All()[i].RemoveAll()) infeeds.push_back(std::move(infeed));
  }
  const Status reason = tensorflow::errors::Cancelled("The process is ending.");
  for (auto& infeed : infeeds) infeed->Interrupt(reason);
  for (auto& infeed : infeeds) {
    if (!infeed->WaitUntilStopped(kPatienceMicroseconds)) Leave(std::move(infeed));
  }
}

void FeedManager::Reset() {
  const Status reason = tensorflow::errors::Cancelled("The IPU configuration has been reset.");
  for (auto& infeed : RemoveAll()) infeed->Stop(reason);
}

std::vector<std::shared_ptr<Infeed>> FeedManager::RemoveAll() {
  std::vector<std::shared_ptr<Infeed>> infeeds;
  decltype(outfeeds_) outfeeds;  // released without the lock
  mutex_lock lock(mu_);
  for (auto& [name, infeed] : infeeds_) infeeds.push_back(std::move(infeed));
  infeeds_.clear();
  outfeeds.swap(outfeeds_);
  return infeeds;
}

bool FeedManager::DeviceIsRunning() { return DeviceState::Get(ordinal_)->running_launches() > 0; }

Status FeedManager::AddInfeed(const std::string& name, std::shared_ptr<Infeed> infeed) {
  std::shared_ptr<Infeed> replaced;
  {
    mutex_lock lock(mu_);
    std::shared_ptr<Infeed>& place = infeeds_[name];
    if (place != nullptr && !place->ended()) {
      return tensorflow::errors::AlreadyExists(
          "The infeed ", name, " already exists on /device:IPU:", ordinal_,
          ". Run the deleter of the infeed_queue before initializing it again.");
    }
    // One that has ended makes room: there is nothing left to lose.
    replaced = std::move(place);
    place = std::move(infeed);
  }
  if (replaced != nullptr) replaced->Stop(Deleted(name));
  return tensorflow::OkStatus();
}

std::shared_ptr<Infeed> FeedManager::FindOrAddInfeed(const InfeedOptions& options) {
  mutex_lock lock(mu_);
  std::shared_ptr<Infeed>& infeed = infeeds_[options.name];
  if (infeed == nullptr) infeed = std::make_shared<Infeed>(options, nullptr);
  return infeed;
}

Status FeedManager::FindInfeed(const std::string& name, std::shared_ptr<Infeed>* infeed) {
  mutex_lock lock(mu_);
  const auto found = infeeds_.find(name);
  if (found == infeeds_.end()) {
    return tensorflow::errors::FailedPrecondition(
        "The infeed ", name, " has not been created on /device:IPU:", ordinal_,
        ". Did you initialize the infeed_queue, and is its device_ordinal that of the device the "
        "program runs on? An iterator is for the device of the strategy in whose scope it was "
        "made.");
  }
  *infeed = found->second;
  return tensorflow::OkStatus();
}

Status FeedManager::DeleteInfeed(const std::string& name,
                                 tensorflow::CancellationManager* cancellation) {
  std::shared_ptr<Infeed> infeed;
  {
    mutex_lock lock(mu_);
    const auto found = infeeds_.find(name);
    if (found == infeeds_.end()) {
      return tensorflow::errors::NotFound(
          "Infeed with id='", name,
          "'. Make sure that you have run the initializer for this "
          "infeed before attempting to delete it. There is none on /device:IPU:",
          ordinal_, ".");
    }
    if (found->second->used() && DeviceIsRunning()) {
      return tensorflow::errors::FailedPrecondition(
          "Cannot delete infeed ", name,
          " while a program that may use it runs on /device:IPU:", ordinal_,
          ". Wait for the program to end.");
    }
    infeed = std::move(found->second);
    infeeds_.erase(found);
  }
  const Status reason = Deleted(name);
  infeed->Interrupt(reason);
  while (!infeed->WaitUntilStopped(kPollMicroseconds)) {
    if (cancellation == nullptr || !cancellation->IsCancelled()) continue;
    Leave(std::move(infeed));
    return tensorflow::errors::Cancelled("Waiting for a dataset to stop was cancelled.");
  }
  infeed->Stop(reason);
  return tensorflow::OkStatus();
}

void FeedManager::DropInfeed(const std::string& name) {
  std::shared_ptr<Infeed> infeed;
  {
    mutex_lock lock(mu_);
    const auto found = infeeds_.find(name);
    if (found == infeeds_.end()) return;
    infeed = std::move(found->second);
    infeeds_.erase(found);
  }
  infeed->Interrupt(Deleted(name));
  if (infeed->WaitUntilStopped(kPatienceMicroseconds)) {
    infeed->Stop(Deleted(name));
  } else {
    Leave(std::move(infeed));
  }
}

void FeedManager::AbandonInfeed(const std::string& name, const std::shared_ptr<Infeed>& infeed) {
  if (IsForked()) return;  // its thread is in the other process
  {
    mutex_lock lock(mu_);
    const auto found = infeeds_.find(name);
    if (found != infeeds_.end() && found->second == infeed) infeeds_.erase(found);
  }
  infeed->Stop(tensorflow::errors::Cancelled("The session that initialized the infeed ", name,
                                             " has been closed."));
}

std::shared_ptr<Outfeed> FeedManager::FindOrAddOutfeed(const std::string& name, OutfeedMode mode) {
  mutex_lock lock(mu_);
  std::shared_ptr<Outfeed>& outfeed = outfeeds_[name];
  if (outfeed == nullptr) outfeed = std::make_shared<Outfeed>(name, mode);
  return outfeed;
}

std::shared_ptr<Outfeed> FeedManager::FindOutfeed(const std::string& name) {
  mutex_lock lock(mu_);
  const auto found = outfeeds_.find(name);
  return found == outfeeds_.end() ? nullptr : found->second;
}

Status FeedManager::DeleteOutfeed(const std::string& name) {
  mutex_lock lock(mu_);
  const auto found = outfeeds_.find(name);
  if (found == outfeeds_.end()) return tensorflow::OkStatus();
  if (DeviceIsRunning()) {
    return tensorflow::errors::FailedPrecondition(
        "Cannot delete outfeed ", name,
        " while a program that may use it runs on /device:IPU:", ordinal_,
        ". Wait for the program to end.");
  }
  outfeeds_.erase(found);
  return tensorflow::OkStatus();
}

void FeedManager::DropOutfeed(const std::string& name) {
  mutex_lock lock(mu_);
  outfeeds_.erase(name);
}

int64_t FeedManager::CountInfeeds() {
  int64_t count = 0;
  for (int i = 0; i < kMaxDevices; ++i) {
    mutex_lock lock(All()[i].mu_);
    count += All()[i].infeeds_.size();
  }
  return count;
}

int64_t FeedManager::CountOutfeeds() {
  int64_t count = 0;
  for (int i = 0; i < kMaxDevices; ++i) {
    mutex_lock lock(All()[i].mu_);
    count += All()[i].outfeeds_.size();
  }
  return count;
}

}  // namespace tensorflow_ipu
