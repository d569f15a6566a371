#include "engine/instance_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {

using tensorflow::mutex_lock;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::errors::DeadlineExceeded;
using tensorflow::errors::FailedPrecondition;
using tensorflow::strings::StrCat;

namespace {

constexpr uint64_t kSecond = 1000 * 1000;  // microseconds
// How often waiting exchanges are looked at, how often the others are asked whether they are there,
// and how long the answer may take: together, less than ten seconds.
constexpr uint64_t kLook = kSecond / 4;
constexpr uint64_t kAsk = 2 * kSecond;
constexpr int64_t kAnswerMilliseconds = 5000;
// An exchange that waits so long is said, or half of the limit if that is less.
constexpr double kWarnSeconds = 8;
// How long the end of the process waits: for messages to get away, and for what was cancelled.
constexpr uint64_t kEnd = 2 * kSecond;
// How long something that an instance has sent may be under way after its message about a fault.
constexpr uint64_t kUnderWay = 5 * kSecond;
constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();
// Bytes of a message about a fault. Its end is cut off, and the rest is zero.
constexpr size_t kMessageBytes = 4096;
// Faults of launches that have not come to an exchange here (yet) are kept, up to so many.
constexpr size_t kFaults = 64;

constexpr char kRestart[] = " Start all instances again, from the last checkpoint.";

// Codes that say something else where they arrive: that data have come to their end, that the step
// was cancelled, or that TensorFlow's sessions should try again.
Status WithOwnCode(int code, const std::string& text) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
      return FailedPrecondition(text);
    default:
      return Status(static_cast<absl::StatusCode>(code), text);
  }
}

Tensor MessageTensor(const std::string& message = "") {
  Tensor tensor(tensorflow::DT_UINT8, {static_cast<int64_t>(kMessageBytes)});
  char* bytes = static_cast<char*>(tensor.data());
  std::memset(bytes, 0, kMessageBytes);
  std::memcpy(bytes, message.data(), std::min(message.size(), kMessageBytes - 1));
  return tensor;
}

}  // namespace

InstanceWatch::InstanceWatch(int index, std::vector<std::string> addresses, double limit,
                             InstanceConnection connection)
    : index_(index),
      addresses_(std::move(addresses)),
      limit_(static_cast<uint64_t>(limit * kSecond)),
      warning_(static_cast<uint64_t>(std::min(kWarnSeconds, limit / 2) * kSecond)),
      connection_(std::move(connection)),
      states_(addresses_.size()),
      ended_(addresses_.size()),
      asked_(addresses_.size()),
      told_(addresses_.size()),
      heard_(addresses_.size()),
      sending_(addresses_.size()) {
  for (int instance = 0; instance < static_cast<int>(addresses_.size()); ++instance) {
    if (instance != index_) Listen(instance);
  }
  thread_.reset(
      tensorflow::Env::Default()->StartThread({}, "ipu_instance_watch", [this] { Run(); }));
}

std::string InstanceWatch::NameOf(int instance) const {
  return StrCat(instance, " (", addresses_[instance], ")");
}

// --- Exchanges ---

Status InstanceWatch::Add(WatchedExchange* exchange, const std::string& key,
                          const std::string& label, std::set<int> others) {
  const uint64_t now = tensorflow::Env::Default()->NowMicros();
  Entry entry{key, label, others, std::move(others), now};
  mutex_lock lock(mu_);
  Status status = FaultIn(entry, now);
  for (const int other : entry.others) status.Update(states_[other]);
  if (status.ok()) exchanges_[exchange] = std::move(entry);
  return status;
}

void InstanceWatch::HasCome(WatchedExchange* exchange, int instance) {
  mutex_lock lock(mu_);
  const auto found = exchanges_.find(exchange);
  if (found != exchanges_.end()) found->second.missing.erase(instance);
}

void InstanceWatch::Remove(WatchedExchange* exchange) {
  mutex_lock lock(mu_);
  exchanges_.erase(exchange);
}

Status InstanceWatch::CauseOf(int instance, const Status& status) {
  if (tensorflow::errors::IsUnavailable(status)) OnHealth(instance, status);
  mutex_lock lock(mu_);
  return states_[instance].ok() ? status : states_[instance];
}

Status InstanceWatch::FaultIn(const Entry& entry, uint64_t now) const {
  for (const Fault& fault : faults_) {
    if (!absl::StartsWith(entry.key, StrCat(fault.launch, ";"))) continue;
    if (fault.is_end &&
        (entry.missing.count(fault.instance) == 0 ||
         now < std::max(fault.told, entry.began) + std::min(kUnderWay, limit_ / 2))) {
      continue;
    }
    return fault.status;
  }
  return tensorflow::OkStatus();
}

void InstanceWatch::Fail(const Failing& failing) {
  for (const auto& [exchange, status] : failing) exchange->Fail(status);
}

// --- What others tell ---

void InstanceWatch::Tell(const std::string& launch, const Status& status, const std::string& text) {
  const std::string message = StrCat(launch, "\n", static_cast<int>(status.code()), "\n", text);
  auto tensor = std::make_shared<Tensor>(MessageTensor(message));
  for (int other = 0; other < static_cast<int>(addresses_.size()); ++other) {
    if (other == index_) continue;
    uint64_t number = 0;
    {
      mutex_lock lock(mu_);
      if (stopped_ || ended_[other]) continue;
      number = told_[other]++;
      ++sending_[other];
    }
    connection_.send(other, StrCat("fault;", index_, ">", other, ";", number), tensor.get(),
                     &telling_, [this, other, tensor](const Status&) {
                       mutex_lock lock(mu_);
                       --sending_[other];
                       change_.notify_all();
                     });
  }
}

void InstanceWatch::Listen(int instance) {
  uint64_t number = 0;
  {
    mutex_lock lock(mu_);
    if (stopped_) return;
    number = heard_[instance]++;
    ++waiting_;
  }
  auto tensor = std::make_shared<Tensor>(MessageTensor());
  connection_.receive(instance, StrCat("fault;", instance, ">", index_, ";", number), tensor.get(),
                      &listening_, [this, instance, tensor](const Status& status) {
                        if (status.ok()) {
                          OnMessage(instance, static_cast<const char*>(tensor->data()));
                          Listen(instance);
                        } else {
                          OnHealth(instance, status);
                        }
                        mutex_lock lock(mu_);
                        --waiting_;
                        change_.notify_all();
                      });
}

void InstanceWatch::OnMessage(int instance, const std::string& message) {
  const std::vector<std::string> parts = absl::StrSplit(message, absl::MaxSplits('\n', 2));
  int code = 0;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[1], &code)) return;
  const bool is_end = static_cast<absl::StatusCode>(code) == absl::StatusCode::kOutOfRange;
  {
    mutex_lock lock(mu_);
    faults_.push_back({instance, parts[0], WithOwnCode(code, parts[2]), is_end,
                       tensorflow::Env::Default()->NowMicros()});
    if (faults_.size() > kFaults) faults_.pop_front();
  }
  LookAtWaits();
}

// --- Instances that have ended, or do not answer ---

void InstanceWatch::OnHealth(int instance, const Status& status) {
  if (status.ok()) return SetState(instance, status);
  if (tensorflow::errors::IsDeadlineExceeded(status)) {
    return SetState(instance, DeadlineExceeded(
                                  "Instance ", NameOf(instance), " of the program does not answer",
                                  ": it was stopped, or its host or the network hangs.", kRestart));
  }
  const std::string reason(status.message());
  SetState(instance,
           FailedPrecondition("Instance ", NameOf(instance),
                              " of the program has ended, or cannot be reached any more: ",
                              reason.substr(0, reason.find('\n')), ".", kRestart));
}

void InstanceWatch::SetState(int instance, const Status& state) {
  Failing failing;
  {
    mutex_lock lock(mu_);
    if (stopped_ || ended_[instance]) return;
    states_[instance] = state;
    change_.notify_all();
    if (state.ok()) return;
    ended_[instance] = !tensorflow::errors::IsDeadlineExceeded(state);
    for (const auto& [exchange, entry] : exchanges_) {
      if (entry.others.count(instance) == 0 || !exchange->Pin()) continue;
      // What it has told before it went says more.
      const Status told = FaultIn(entry, kForever);
      failing.push_back({exchange, told.ok() ? state : told});
    }
  }
  Fail(failing);
}

void InstanceWatch::AskAll() {
  for (int other = 0; other < static_cast<int>(addresses_.size()); ++other) {
    if (other == index_) continue;
    {
      mutex_lock lock(mu_);
      if (ended_[other] || asked_[other]) continue;
      asked_[other] = true;
    }
    connection_.check(other, kAnswerMilliseconds, [this, other](const Status& status) {
      {
        mutex_lock lock(mu_);
        asked_[other] = false;
        if (stopped_) return;
      }
      OnHealth(other, status);
    });
  }
}

// --- Instances that do not come ---

std::string InstanceWatch::Waits(const Entry& entry, uint64_t now) const {
  std::vector<std::string> names;
  for (const int instance : entry.missing.empty() ? entry.others : entry.missing) {
    names.push_back(StrCat("instance ", NameOf(instance)));
  }
  return StrCat("Instance ", NameOf(index_), " of the program has waited ",
                (now - entry.began) / kSecond, " seconds for ", absl::StrJoin(names, ", "), " at ",
                entry.label);
}

void InstanceWatch::LookAtWaits() {
  Failing failing;
  std::string warnings;
  {
    mutex_lock lock(mu_);
    const uint64_t now = tensorflow::Env::Default()->NowMicros();
    for (auto& [exchange, entry] : exchanges_) {
      Status status = FaultIn(entry, now);
      // Who meets one other only may wait for what that one waits for, and lets it tell.
      const uint64_t limit = entry.others.size() == 1 ? limit_ + kSecond : limit_;
      if (now >= entry.began + limit) {
        status.Update(DeadlineExceeded(
            Waits(entry, now),
            ", which is the limit (POPDIST_COLLECTIVE_TIMEOUT). All instances "
            "have to run the same programs, with the same collectives in the same order."));
      }
      if (!status.ok()) {
        if (exchange->Pin()) failing.push_back({exchange, status});
      } else if (now >= entry.began + warning_ && !std::exchange(entry.warned, true)) {
        tensorflow::strings::StrAppend(&warnings, "tensorflow_ipu: ", Waits(entry, now),
                                       ". It is an error after ", limit_ / kSecond,
                                       " seconds (POPDIST_COLLECTIVE_TIMEOUT).\n");
      }
    }
  }
  if (!warnings.empty()) std::fputs(warnings.c_str(), stderr);
  Fail(failing);
}

void InstanceWatch::Run() {
  uint64_t next = 0;
  while (true) {
    const uint64_t now = tensorflow::Env::Default()->NowMicros();
    if (now >= next) {
      AskAll();
      next = now + kAsk;
    }
    LookAtWaits();
    mutex_lock lock(mu_);
    if (!stopped_) change_.wait_for(lock, std::chrono::microseconds(kLook));
    if (stopped_) return;
  }
}

void InstanceWatch::ShutDown() {
  {
    mutex_lock lock(mu_);
    // Nobody takes what is for an instance that has ended.
    WaitUntil(lock, [this] {
      for (size_t other = 0; other < addresses_.size(); ++other) {
        if (sending_[other] > 0 && states_[other].ok()) return false;
      }
      return true;
    });
    stopped_ = true;
    change_.notify_all();
  }
  telling_.StartCancel();
  listening_.StartCancel();
  mutex_lock lock(mu_);
  WaitUntil(lock, [this] { return waiting_ == 0; });
}

void InstanceWatch::WaitUntil(mutex_lock& lock, const std::function<bool()>& reached) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(kEnd);
  while (!reached()) {
    const auto remaining = deadline - std::chrono::steady_clock::now();
    if (remaining <= remaining.zero()) return;
    change_.wait_for(lock, remaining);
  }
}

}  // namespace tensorflow_ipu
