#include "engine/uniform_exchange.h"

#include <algorithm>
#include <iterator>
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

// The leader may be ahead by so many small values, which cost no memory to speak of.
constexpr size_t kSmallEntries = 256;
constexpr size_t kSmallBytes = 4096;

bool IsSmall(const UniformExchange::Values& values) {
  size_t bytes = 0;
  for (const tensorflow::Tensor& value : values) bytes += value.TotalBytes();
  return bytes <= kSmallBytes;
}

}  // namespace

size_t UniformExchange::KeyHash::operator()(const Key& key) const {
  return CombineBits(CombineBits(static_cast<uint64_t>(key.node), key.frame),
                     static_cast<uint64_t>(key.iteration));
}

UniformExchange::UniformExchange(int num_replicas)
    : num_replicas_(num_replicas), cancelled_(num_replicas), ended_(num_replicas) {}

void UniformExchange::Publish(const Key& key, Values values, std::function<void()> done) {
  std::vector<Waiter> followers;
  {
    mutex_lock lock(mu_);
    Entry& entry = EntryOf(key);
    followers = std::move(entry.followers);
    for (const Waiter& waiter : followers) entry.taken[waiter.replica] = true;
    if (HasAll(entry.taken)) {
      entries_.erase(key);
    } else {
      entry.published = true;
      entry.followers.clear();
      entry.values = values;
      const bool may_run_ahead = IsSmall(values) && entries_.size() < kSmallEntries;
      if (!cancelled_[0] && !may_run_ahead) entry.leader_done = std::exchange(done, nullptr);
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
    Entry& entry = EntryOf(key);
    if (entry.published) {
      values = entry.values;
      entry.taken[replica] = true;
      if (HasAll(entry.taken)) {
        leader_done = std::move(entry.leader_done);
        entries_.erase(key);
      }
    } else if (MayWait(replica)) {
      entry.followers.push_back({replica, std::move(receive)});
      return;
    } else {
      status = WasCancelled();
    }
  }
  receive(status, values);
  values.clear();
  if (leader_done != nullptr) leader_done();
}

void UniformExchange::Arrive(const Key& key, int replica) {
  Receive leader;
  {
    mutex_lock lock(mu_);
    Entry& entry = EntryOf(key);
    entry.arrived[replica] = true;
    if (HasAll(entry.arrived)) leader = std::exchange(entry.leader, nullptr);
  }
  if (leader != nullptr) leader(tensorflow::OkStatus(), {});
}

void UniformExchange::AwaitArrivals(const Key& key, Receive receive) {
  Status status;
  {
    mutex_lock lock(mu_);
    Entry& entry = EntryOf(key);
    if (!HasAll(entry.arrived)) {
      if (!cancelled_[0]) {
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

UniformExchange::Entry& UniformExchange::EntryOf(const Key& key) {
  const auto [found, is_new] = entries_.try_emplace(key);
  if (is_new) {
    found->second.taken.resize(num_replicas_);
    found->second.arrived.resize(num_replicas_);
  }
  return found->second;
}

bool UniformExchange::HasAll(const std::vector<bool>& replicas) const {
  for (int r = 1; r < num_replicas_; ++r) {
    if (!replicas[r] && !ended_[r]) return false;
  }
  return true;
}

bool UniformExchange::MayWait(int replica) const { return !cancelled_[replica] && !ended_[0]; }

void UniformExchange::EndWaits() {
  std::vector<std::pair<Receive, Status>> receivers;
  std::vector<std::function<void()>> done;
  {
    mutex_lock lock(mu_);
    for (auto next = entries_.begin(); next != entries_.end();) {
      Entry& entry = next->second;
      const bool taken = entry.published && HasAll(entry.taken);
      if (entry.leader != nullptr && (cancelled_[0] || HasAll(entry.arrived))) {
        receivers.emplace_back(std::exchange(entry.leader, nullptr),
                               cancelled_[0] ? WasCancelled() : tensorflow::OkStatus());
      }
      if (entry.leader_done != nullptr && (cancelled_[0] || taken)) {
        done.push_back(std::exchange(entry.leader_done, nullptr));
      }
      const auto stays = [this](const Waiter& waiter) { return MayWait(waiter.replica); };
      auto& followers = entry.followers;
      const auto ends = std::stable_partition(followers.begin(), followers.end(), stays);
      for (auto waiter = ends; waiter != followers.end(); ++waiter) {
        receivers.emplace_back(std::move(waiter->receive), WasCancelled());
      }
      followers.erase(ends, followers.end());
      next = taken ? entries_.erase(next) : std::next(next);
    }
  }
  for (const auto& [receive, status] : receivers) receive(status, {});
  for (const auto& function : done) function();
}

}  // namespace tensorflow_ipu
