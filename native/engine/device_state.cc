#include "engine/device_state.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "engine/random_bits.h"
#include "tensorflow/core/lib/random/random.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

std::atomic<int64_t> attached_generation{0};
std::atomic<int> attached_devices{1};
std::atomic<bool> devices_listed{false};

// The devices that Add made, in the order of their ordinals. Never destroyed.
struct AddedDevices {
  tensorflow::mutex mu;
  std::vector<DeviceState*> states TF_GUARDED_BY(mu);
};

AddedDevices& Added() {
  static auto* added = new AddedDevices;
  return *added;
}

}  // namespace

DeviceState::DeviceState() : generator_(tensorflow::random::New64()) {}

DeviceState* DeviceState::All() {
  static DeviceState* states = [] {
    auto* made = new DeviceState[kMaxDevices];
    for (int i = 0; i < kMaxDevices; ++i) made[i].ordinal_ = i;
    return made;
  }();
  return states;
}

DeviceState* DeviceState::Get(int ordinal) {
  if (ordinal < 0) return nullptr;
  if (ordinal < kMaxDevices) return &All()[ordinal];
  AddedDevices& added = Added();
  tensorflow::mutex_lock lock(added.mu);
  const size_t index = ordinal - kMaxDevices;
  return index < added.states.size() ? added.states[index] : nullptr;
}

int DeviceState::Add() {
  AddedDevices& added = Added();
  tensorflow::mutex_lock lock(added.mu);
  auto* made = new DeviceState;
  made->ordinal_ = kMaxDevices + static_cast<int>(added.states.size());
  added.states.push_back(made);
  return made->ordinal_;
}

int DeviceState::running_launches() {
  tensorflow::mutex_lock lock(mu_);
  return running_;
}

void DeviceState::BeginLaunch(uint64_t id, std::function<void()> start) {
  {
    tensorflow::mutex_lock lock(mu_);
    if (++running_ > 1) {
      waiting_.emplace_back(id, std::move(start));
      return;
    }
  }
  start();
}

void DeviceState::EndLaunch() {
  std::function<void()> next;
  {
    tensorflow::mutex_lock lock(mu_);
    --running_;
    if (!waiting_.empty()) {
      next = std::move(waiting_.front().second);
      waiting_.pop_front();
    }
    changed_.notify_all();
  }
  if (next != nullptr) next();
}

bool DeviceState::Withdraw(uint64_t id) {
  tensorflow::mutex_lock lock(mu_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [id](const auto& waiting) { return waiting.first == id; });
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  --running_;
  return true;
}

tensorflow::Status DeviceState::WaitIdle(tensorflow::CancellationManager* cancellation) {
  // Set by the callback, under mu_: IsCancelled() turns true only after all callbacks have run.
  bool cancelled = false;
  tensorflow::CancellationToken token = tensorflow::CancellationManager::kInvalidToken;
  if (cancellation != nullptr) {
    token = cancellation->get_cancellation_token();
    const bool registered = cancellation->RegisterCallback(token, [this, &cancelled] {
      tensorflow::mutex_lock lock(mu_);
      cancelled = true;
      changed_.notify_all();
    });
    if (!registered) return tensorflow::errors::Cancelled("Waiting for the IPU was cancelled.");
  }
  {
    tensorflow::mutex_lock lock(mu_);
    while (running_ > 0 && !cancelled) changed_.wait(lock);
  }
  // Waits for a callback that has begun, so none outlives `cancelled`.
  if (cancellation != nullptr) cancellation->DeregisterCallback(token);
  return cancelled ? tensorflow::errors::Cancelled("Waiting for the IPU was cancelled.")
                   : tensorflow::OkStatus();
}

bool DeviceState::WaitIdle(std::chrono::microseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  tensorflow::mutex_lock lock(mu_);
  while (running_ > 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    changed_.wait_for(lock, left);
  }
  return true;
}

void DeviceState::ResetSeed(uint64_t seed, bool identical_replicas) {
  tensorflow::mutex_lock lock(mu_);
  generator_ = seed;
  has_seed_ = true;
  identical_replicas_ = identical_replicas;
}

void DeviceState::BeginWithSeed(uint64_t seed) {
  tensorflow::mutex_lock lock(mu_);
  if (!has_seed_) generator_ = seed;
  has_seed_ = true;
}

std::vector<uint64_t> DeviceState::DrawSeeds(int num_replicas) {
  tensorflow::mutex_lock lock(mu_);
  std::vector<uint64_t> seeds(num_replicas);
  for (int i = 0; i < num_replicas; ++i) {
    seeds[i] = identical_replicas_ && i > 0 ? seeds[0] : NextRandomBits(&generator_);
  }
  return seeds;
}

void DeviceState::Load(const std::string& executable, bool has_inputs) {
  tensorflow::mutex_lock lock(mu_);
  const bool load = loaded_ != executable;
  if (load) {
    resident_variables_.Clear();
    if (!loaded_.empty()) {
      EventStore::Record(EventType::kDeviceToHost, ordinal_, loaded_, /*variables=*/true);
    }
    EventStore::Record(EventType::kLoadEngine, ordinal_, executable);
    loaded_ = executable;
  }
  if (load || has_inputs) {
    EventStore::Record(EventType::kHostToDevice, ordinal_, executable, /*variables=*/load);
  }
}

void DeviceState::Unload() {
  tensorflow::mutex_lock lock(mu_);
  loaded_.clear();
  resident_variables_.Clear();
}

void Attachment::Set(int64_t generation, int num_devices) {
  attached_generation = generation;
  attached_devices = num_devices;
}

int64_t Attachment::generation() { return attached_generation; }

int Attachment::num_devices() { return attached_devices; }

void Attachment::List() { devices_listed = true; }

bool Attachment::listed() { return devices_listed; }

}  // namespace tensorflow_ipu
