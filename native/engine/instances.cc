#include "engine/instances.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <utility>

#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {

using tensorflow::CancellationManager;
using tensorflow::CollectiveExecutor;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::strings::StrCat;

namespace {

// Bytes of a label as it is sent: its end is cut off, and the rest is zero.
constexpr size_t kLabelBytes = 512;

tensorflow::mutex joined_mutex(tensorflow::LINKER_INITIALIZED);
Instances* joined TF_GUARDED_BY(joined_mutex) = nullptr;

Tensor LabelTensor(const std::string& label) {
  Tensor tensor(tensorflow::DT_UINT8, {static_cast<int64_t>(kLabelBytes)});
  char* bytes = static_cast<char*>(tensor.data());
  std::memset(bytes, 0, kLabelBytes);
  std::memcpy(bytes, label.data(), std::min(label.size(), kLabelBytes - 1));
  return tensor;
}

std::string LabelText(const Tensor& tensor) { return static_cast<const char*>(tensor.data()); }

// One exchange, until the last of its messages has come or gone.
class Exchanging : public WatchedExchange {
 public:
  Exchanging(int instances, int own, const std::string& label, InstanceTensors mine,
             InstanceWatch* watch, CancellationManager* parent,
             std::function<void(const Status&, Exchanging*)> finish)
      : tensors(instances),
        labels(instances),
        watch_(watch),
        cancellation_(std::make_unique<CancellationManager>(parent)),
        finish_(std::move(finish)) {
    labels[own] = LabelTensor(label);
    tensors[own] = std::move(mine);
  }

  // Says that a message to or from an instance begins. The result is for its end.
  tensorflow::StatusCallback Begin(int instance) {
    pending_.fetch_add(1);
    return [this, instance](const Status& status) {
      End(status.ok() ? status : watch_->CauseOf(instance, status));
    };
  }

  // The same for what an instance sends as soon as it comes.
  tensorflow::StatusCallback BeginFirst(int instance) {
    return [this, instance, end = Begin(instance)](const Status& status) {
      if (status.ok()) watch_->HasCome(this, instance);
      end(status);
    };
  }

  bool Pin() override {
    int pending = pending_;
    while (pending > 0 && !pending_.compare_exchange_weak(pending, pending + 1)) {
    }
    return pending > 0;
  }

  void Fail(const Status& status) override { End(status); }

  void End(const Status& status) {
    bool first_error = false;
    {
      tensorflow::mutex_lock lock(mu_);
      first_error = status_.ok() && !status.ok();
      status_.Update(status);
    }
    // The other messages may never come.
    if (first_error) cancellation_->StartCancel();
    if (pending_.fetch_sub(1) > 1) return;
    watch_->Remove(this);
    // A cancellation, which may be what has brought about this call, has to return before its
    // manager can go.
    if (Ended().ok()) return Finish();
    tensorflow::Env::Default()->SchedClosure([this] { Finish(); });
  }

  std::vector<InstanceTensors> tensors;  // by instance
  std::vector<Tensor> labels;

  CancellationManager* cancellation() { return cancellation_.get(); }

 private:
  // Whoever is told may end what the cancellation belongs to, so that goes first.
  void Finish() {
    cancellation_.reset();
    finish_(Ended(), this);
    delete this;
  }

  Status Ended() {
    tensorflow::mutex_lock lock(mu_);
    return status_;
  }

  InstanceWatch* const watch_;
  std::unique_ptr<CancellationManager> cancellation_;
  std::atomic<int> pending_{1};
  const std::function<void(const Status&, Exchanging*)> finish_;
  tensorflow::mutex mu_;
  Status status_ TF_GUARDED_BY(mu_);
};

// An error unless all labels are the same.
Status CheckLabels(const InstanceWatch& watch, int own, int first,
                   const std::vector<Tensor>& labels) {
  const std::string ours = LabelText(labels[own]);
  const auto place = [](const std::string& label) { return label.substr(0, label.find('\n')); };
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string theirs = LabelText(labels[i]);
    if (theirs == ours) continue;
    const std::string mine = watch.NameOf(first + own), other = watch.NameOf(first + i);
    if (place(theirs) == place(ours)) {
      return tensorflow::errors::FailedPrecondition(
          "The instances do not run the same program: instance ", mine, " and instance ", other,
          " both came to ", place(ours),
          ", but in programs that differ elsewhere. All instances have to make the same programs, "
          "and to run them in the same order.");
    }
    return tensorflow::errors::FailedPrecondition(
        "The instances do not run the same program: instance ", mine, " came to ", place(ours),
        ", but instance ", other, " came to ", place(theirs),
        ". All instances have to run the same programs, with the same collectives in the same "
        "order.");
  }
  return tensorflow::OkStatus();
}

}  // namespace

Instances* Instances::Get() {
  tensorflow::mutex_lock lock(joined_mutex);
  return joined;
}

Status Instances::Join(std::vector<std::string> tasks, int index, uint64_t seed,
                       std::vector<std::string> addresses, double limit,
                       CollectiveExecutor* executor, tensorflow::Device* cpu) {
  if (executor == nullptr || executor->remote_access() == nullptr) {
    return tensorflow::errors::Internal("TensorFlow's collectives do not reach other processes.");
  }
  executor->Ref();
  tensorflow::mutex_lock lock(joined_mutex);
  // Lives as long as the process.
  joined = new Instances(std::move(tasks), index, seed, std::move(addresses), limit, executor, cpu);
  return tensorflow::OkStatus();
}

Instances::Instances(std::vector<std::string> tasks, int index, uint64_t seed,
                     std::vector<std::string> addresses, double limit, CollectiveExecutor* executor,
                     tensorflow::Device* cpu)
    : tasks_(std::move(tasks)),
      index_(index),
      seed_(seed),
      executor_(executor),
      cpu_(cpu),
      watch_(index, std::move(addresses), limit, Connection()) {}

InstanceConnection Instances::Connection() {
  return {[this](int to, const std::string& key, const Tensor* tensor,
                 CancellationManager* cancellation, tensorflow::StatusCallback done) {
            Send(to, key, tensor, cancellation, std::move(done));
          },
          [this](int from, const std::string& key, Tensor* tensor,
                 CancellationManager* cancellation, tensorflow::StatusCallback done) {
            Receive(from, key, tensor, cancellation, std::move(done));
          },
          [this](int instance, int64_t milliseconds, tensorflow::StatusCallback done) {
            executor_->remote_access()->CheckPeerHealth(tasks_[instance], milliseconds, done);
          }};
}

uint64_t Instances::Next(const std::string& name) {
  tensorflow::mutex_lock lock(mu_);
  return numbers_[name]++;
}

void Instances::Exchange(const std::string& key, const std::string& label, int first,
                         const std::vector<int>& sizes, InstanceTensors mine,
                         CancellationManager* cancellation, Done done) {
  const int own = index_ - first;
  const Tensor sample = mine[0];
  auto* state = new Exchanging(
      static_cast<int>(sizes.size()), own, label, std::move(mine), &watch_, cancellation,
      [this, own, first, done = std::move(done)](Status status, Exchanging* ended) {
        if (status.ok()) status = CheckLabels(watch_, own, first, ended->labels);
        done(status, std::move(ended->tensors));
      });
  std::set<int> others;
  for (int place = 0; place < static_cast<int>(sizes.size()); ++place) {
    if (place != own) others.insert(first + place);
  }
  const Status known = watch_.Add(state, key, label.substr(0, label.find('\n')), std::move(others));
  if (!known.ok()) return state->End(known);
  CancellationManager* cancelling = state->cancellation();
  for (int place = 0; place < static_cast<int>(sizes.size()); ++place) {
    if (place == own) continue;
    const int other = first + place;
    const std::string out = StrCat(key, ";", index_, ">", other);
    const std::string in = StrCat(key, ";", other, ">", index_);
    state->labels[place] = Tensor(tensorflow::DT_UINT8, state->labels[own].shape());
    Send(other, out, &state->labels[own], cancelling, state->Begin(other));
    Receive(other, in, &state->labels[place], cancelling, state->BeginFirst(other));
    if (sample.NumElements() == 0) {
      state->tensors[place].assign(sizes[place], sample);
      continue;
    }
    for (size_t i = 0; i < state->tensors[own].size(); ++i) {
      const Tensor* tensor = &state->tensors[own][i];
      Send(other, StrCat(out, ";", i), tensor, cancelling, state->Begin(other));
    }
    InstanceTensors& theirs = state->tensors[place];
    for (int i = 0; i < sizes[place]; ++i) theirs.emplace_back(sample.dtype(), sample.shape());
    for (int i = 0; i < sizes[place]; ++i) {
      Receive(other, StrCat(in, ";", i), &theirs[i], cancelling, state->Begin(other));
    }
  }
  state->End(tensorflow::OkStatus());
}

void Instances::Send(int to, const std::string& key, const Tensor* tensor,
                     CancellationManager* cancellation, tensorflow::StatusCallback done) {
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  executor_->remote_access()->PostToPeer(Device(to), tasks_[to], key, cpu_,
                                         /*from_device_ctx=*/nullptr, on_host, tensor, {},
                                         cancellation, done);
}

void Instances::Receive(int from, const std::string& key, Tensor* tensor,
                        CancellationManager* cancellation, tensorflow::StatusCallback done) {
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  executor_->remote_access()->RecvFromPeer(Device(from), tasks_[from], /*peer_is_local=*/false, key,
                                           cpu_, /*to_device_ctx=*/nullptr, on_host, tensor, {},
                                           /*dev_to_dev_stream_index=*/0, cancellation, done);
}

std::string Instances::Device(int instance) const {
  return StrCat(tasks_[instance], "/device:CPU:0");
}

}  // namespace tensorflow_ipu
