#include "engine/uniform_exchange.h"

#include <algorithm>
#include <utility>

#include "engine/random_bits.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::mutex_lock;
using tensorflow::Status;

// Says nothing of the cause, which another replica or whoever cancelled the launch knows.
Status WasCancelled() {
  return tensorflow::StatusGroup::MakeDerived(
      tensorflow::errors::Cancelled("Waiting for a value of all replicas was cancelled."));
}

}  // namespace

size_t UniformExchange::KeyHash::operator()(const Key& key) const {
  return CombineBits(CombineBits(static_cast<uint64_t>(key.node), key.frame),
                     static_cast<uint64_t>(key.iteration));
}

UniformExchange::UniformExchange(int num_replicas)
    : num_followers_(num_replicas - 1), cancelled_(num_replicas), ended_(num_replicas) {}

void UniformExchange::Publish(const Key& key, Values values, std::function<void()> done) {
  std::vector<Waiter> followers;
  {
    mutex_lock lock(mu_);
    Entry& entry = entries_[key];
    followers = std::move(entry.followers);
    entry.taken += static_cast<int>(followers.size());
    if (entry.taken == num_followers_) {
      entries_.erase(key);
    } else {
      entry.published = true;
      entry.followers.clear();
      entry.values = values;
      if (MayWait(0)) entry.leader_done = std::exchange(done, nullptr);
    }
  }
  for (const Waiter& waiter : followers) waiter.receive(tensorflow::OkStatus(), values);
  values.clear();
  if (done != nullptr) done();
}

void UniformExchange::Take(const Key& key, int replica, Receive receive) {
  Values values;
  Status status;
  std::function<void()> leader_done;
  {
    mutex_lock lock(mu_);
    Entry& entry = entries_[key];
    if (!entry.published) {
      if (MayWait(replica)) {
        entry.followers.push_back({replica, std::move(receive)});
        return;
      }
      status = WasCancelled();
    } else if (++entry.taken == num_followers_) {
      values = std::move(entry.values);
      leader_done = std::move(entry.leader_done);
      entries_.erase(key);
    } else {
      values = entry.values;
    }
  }
  receive(status, values);
  values.clear();
  if (leader_done != nullptr) leader_done();
}

void UniformExchange::Arrive(const Key& key) {
  Receive leader;
  {
    mutex_lock lock(mu_);
    Entry& entry = entries_[key];
    if (++entry.arrived == num_followers_) leader = std::exchange(entry.leader, nullptr);
  }
  if (leader != nullptr) leader(tensorflow::OkStatus(), {});
}

void UniformExchange::AwaitArrivals(const Key& key, Receive receive) {
  Status status;
  {
    mutex_lock lock(mu_);
    Entry& entry = entries_[key];
    if (entry.arrived < num_followers_) {
      if (MayWait(0)) {
        entry.leader = std::move(receive);
        return;
      }
      status = WasCancelled();
    }
  }
  receive(status, {});
}

void UniformExchange::Cancel(int replica) {
  {
    mutex_lock lock(mu_);
    cancelled_[replica] = true;
  }
  EndWaits();
}

void UniformExchange::End(int replica) {
  {
    mutex_lock lock(mu_);
    ended_[replica] = true;
  }
  EndWaits();
}

bool UniformExchange::MayWait(int replica) const {
  if (cancelled_[replica]) return false;
  if (replica > 0) return !ended_[0];
  return std::find(ended_.begin(), ended_.end(), true) == ended_.end();
}

void UniformExchange::EndWaits() {
  std::vector<Receive> receivers;
  std::vector<std::function<void()>> done;
  {
    mutex_lock lock(mu_);
    for (auto& [key, entry] : entries_) {
      if (!MayWait(0)) {
        if (entry.leader != nullptr) receivers.push_back(std::exchange(entry.leader, nullptr));
        if (entry.leader_done != nullptr) done.push_back(std::exchange(entry.leader_done, nullptr));
      }
      const auto stays = [this](const Waiter& waiter) { return MayWait(waiter.replica); };
      auto& followers = entry.followers;
      const auto ends = std::stable_partition(followers.begin(), followers.end(), stays);
      for (auto waiter = ends; waiter != followers.end(); ++waiter) {
        receivers.push_back(std::move(waiter->receive));
      }
      followers.erase(ends, followers.end());
    }
  }
  for (const Receive& receive : receivers) receive(WasCancelled(), {});
  for (const auto& function : done) function();
}

}  // namespace tensorflow_ipu
