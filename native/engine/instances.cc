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

// The first message between two instances is a letter, of one size whatever is in it: a label,
// whose end is cut off, and as many tensors as there is room for. Most exchanges are one message.
constexpr size_t kLabelBytes = 512;
constexpr size_t kLetterBytes = 8192;
// Larger tensors go in several messages, so that sending, receiving and copying go on at the same
// time. Measured with benchmarks/distributed.py.
constexpr int64_t kMessageBytes = 2 << 20;

tensorflow::mutex joined_mutex(tensorflow::LINKER_INITIALIZED);
Instances* joined TF_GUARDED_BY(joined_mutex) = nullptr;

// Where each tensor is in the letter; 0 for one that is a message of its own.
std::vector<size_t> PlacesIn(const std::vector<Tensor>& tensors) {
  std::vector<size_t> places;
  size_t at = kLabelBytes;
  for (const Tensor& tensor : tensors) {
    const bool fits = at + tensor.TotalBytes() <= kLetterBytes;
    places.push_back(fits ? at : 0);
    if (fits) at += tensor.TotalBytes();
  }
  return places;
}

// The same bytes in tensors of at most one message each.
std::vector<Tensor> InMessages(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> messages;
  for (const Tensor& tensor : tensors) {
    const auto size = static_cast<int64_t>(tensor.TotalBytes());
    Tensor bytes;
    TF_CHECK_OK(bytes.BitcastFrom(tensor, tensorflow::DT_UINT8, {size}));
    int64_t begin = 0;
    do {
      const int64_t end = std::min(begin + kMessageBytes, size);
      messages.push_back(bytes.Slice(begin, end));
      begin = end;
    } while (begin < size);
  }
  return messages;
}

void CopyBytes(const void* from, size_t size, void* to) {
  if (size > 0) std::memcpy(to, from, size);
}

// A label as it stands in a letter. The place comes last: if there is no room, its end is cut off.
std::string WriteLabel(const ExchangeLabel& label) {
  return StrCat(label.program, "\n", label.layout, "\n", label.place).substr(0, kLabelBytes - 1);
}

ExchangeLabel ReadLabel(const std::string& text) {
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  return {text.substr(second + 1), text.substr(0, first),
          text.substr(first + 1, second - first - 1)};
}

// An error unless the label of another instance is ours.
Status CheckLabel(const std::string& ours, const std::string& theirs, const std::string& own,
                  const std::string& other) {
  if (theirs == ours) return tensorflow::OkStatus();
  const ExchangeLabel here = ReadLabel(ours), there = ReadLabel(theirs);
  if (here.place != there.place) {
    return tensorflow::errors::FailedPrecondition(
        "The instances do not run the same program: instance ", own, " came to ", here.Text(),
        ", but instance ", other, " came to ", there.Text(),
        ". All instances have to run the same programs, with the same collectives in the same "
        "order.");
  }
  if (here.program != there.program) {
    return tensorflow::errors::FailedPrecondition(
        "The instances do not run the same program: instance ", own, " and instance ", other,
        " both came to ", here.place,
        ", but in programs that differ elsewhere. All instances have to make the same programs, "
        "and to run them in the same order.");
  }
  return tensorflow::errors::Unknown(
      "Tensor layouts did not match on all instances: at ", here.place, " instance ", own, " has ",
      here.layout, ", but instance ", other, " has ", there.layout,
      ". All instances have to give tensors of the same type and shape to a collective.");
}

// One exchange, until the last of its messages has come or gone.
class Exchanging : public WatchedExchange {
 public:
  // `label` is what the letters begin with, or empty.
  Exchanging(std::string label, std::vector<Parcel> all, InstanceWatch* watch,
             CancellationManager* parent, tensorflow::StatusCallback finish)
      : parcels(std::move(all)),
        label_(std::move(label)),
        watch_(watch),
        cancellation_(std::make_unique<CancellationManager>(parent)),
        finish_(std::move(finish)) {
    for (Parcel& parcel : parcels) {
      parcel.give = InMessages(parcel.give);
      parcel.take = InMessages(parcel.take);
      written.push_back(WriteLetter(parcel.give));
      received.push_back(NeedsLetter(parcel.take) ? EmptyLetter() : Tensor());
    }
  }

  // Copies the tensors in the letter of parcel `p`. An error if its label is not ours.
  Status OpenLetter(size_t p) {
    const int other = parcels[p].instance;
    const char* letter = static_cast<const char*>(received[p].data());
    watch_->HasCome(this, other);
    TF_RETURN_IF_ERROR(
        CheckLabel(label_, letter, watch_->NameOf(watch_->index()), watch_->NameOf(other)));
    std::vector<Tensor>& take = parcels[p].take;
    const std::vector<size_t> places = PlacesIn(take);
    for (size_t i = 0; i < take.size(); ++i) {
      if (places[i] > 0) CopyBytes(letter + places[i], take[i].TotalBytes(), take[i].data());
    }
    return tensorflow::OkStatus();
  }

  // Says that a message to or from an instance begins. The result is for its end.
  tensorflow::StatusCallback Begin(int instance) {
    pending_.fetch_add(1);
    return [this, instance](const Status& status) {
      End(status.ok() ? status : watch_->CauseOf(instance, status));
    };
  }

  // The same for the letter of parcel `p`, which is opened then.
  tensorflow::StatusCallback BeginLetter(size_t p) {
    letters_.fetch_add(1);
    return [this, p, end = Begin(parcels[p].instance)](const Status& status) {
      if (status.ok()) Refuse(OpenLetter(p));
      LetterEnds();
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

  // Says that a letter of ours begins.
  tensorflow::StatusCallback BeginSending(int instance) {
    letters_.fetch_add(1);
    return [this, end = Begin(instance)](const Status& status) {
      LetterEnds();
      end(status);
    };
  }

  // Says that a letter has been read, here or there, or has failed, or that all have begun.
  void LetterEnds() {
    if (letters_.fetch_sub(1) > 1) return;
    if (!Ended().ok()) Cancel();
  }

  // Makes a letter that is not what was expected an error. The others learn of it from our letters,
  // and we take theirs, so that they are not kept waiting: other messages are cancelled after that.
  void Refuse(const Status& status) {
    tensorflow::mutex_lock lock(mu_);
    status_.Update(status);
  }

  void End(const Status& status) {
    if (!status.ok()) {
      {
        tensorflow::mutex_lock lock(mu_);
        status_.Update(status);
      }
      // The other messages may never come.
      Cancel();
    }
    if (pending_.fetch_sub(1) > 1) return;
    watch_->Remove(this);
    // A cancellation, which may be what has brought about this call, has to return before its
    // manager can go.
    if (Ended().ok()) return Finish();
    tensorflow::Env::Default()->SchedClosure([this] { Finish(); });
  }

  std::vector<Parcel> parcels;
  // The letters of each parcel, empty where there is none.
  std::vector<Tensor> written, received;

  CancellationManager* cancellation() { return cancellation_.get(); }

 private:
  static Tensor EmptyLetter() {
    return Tensor(tensorflow::DT_UINT8, {static_cast<int64_t>(kLetterBytes)});
  }

  // There is none if it would say nothing.
  bool NeedsLetter(const std::vector<Tensor>& tensors) const {
    if (!label_.empty()) return true;
    const std::vector<size_t> places = PlacesIn(tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (places[i] > 0 && tensors[i].TotalBytes() > 0) return true;
    }
    return false;
  }

  Tensor WriteLetter(const std::vector<Tensor>& give) const {
    if (!NeedsLetter(give)) return Tensor();
    Tensor letter = EmptyLetter();
    char* bytes = static_cast<char*>(letter.data());
    std::memset(bytes, 0, kLetterBytes);
    CopyBytes(label_.data(), label_.size(), bytes);
    const std::vector<size_t> places = PlacesIn(give);
    for (size_t i = 0; i < give.size(); ++i) {
      if (places[i] > 0) CopyBytes(give[i].data(), give[i].TotalBytes(), bytes + places[i]);
    }
    return letter;
  }

  // Whoever is told may end what the cancellation belongs to, so that goes first.
  void Finish() {
    cancellation_.reset();
    parcels.clear();  // tensors have no more owners afterwards than they seem to have
    finish_(Ended());
    delete this;
  }

  void Cancel() {
    if (!cancelled_.exchange(true)) cancellation_->StartCancel();
  }

  Status Ended() {
    tensorflow::mutex_lock lock(mu_);
    return status_;
  }

  const std::string label_;
  InstanceWatch* const watch_;
  std::unique_ptr<CancellationManager> cancellation_;
  std::atomic<int> pending_{1};
  std::atomic<int> letters_{1};  // under way; one more until all have begun
  std::atomic<bool> cancelled_{false};
  const tensorflow::StatusCallback finish_;
  tensorflow::mutex mu_;
  Status status_ TF_GUARDED_BY(mu_);
};

}  // namespace

std::string ExchangeLabel::Text() const {
  return layout.empty() ? place : StrCat(place, " of ", layout);
}

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

Status Instances::CheckJoined(int count, int index) {
  const Instances* instances = Get();
  if (instances == nullptr) {
    return tensorflow::errors::FailedPrecondition(
        "The program has replicas in ", count,
        " processes (experimental.multi_replica_distribution.process_count), but this process has "
        "not joined the others. Call popdist.init() at the beginning of the program, and start it "
        "with poprun --num-instances ",
        count, ".");
  }
  if (instances->count() == count && instances->index() == index) return tensorflow::OkStatus();
  return tensorflow::errors::FailedPrecondition(
      "The configuration says that this is process ", index, " of ", count,
      " (process_index and process_count of experimental.multi_replica_distribution), but it has "
      "joined the others as instance ",
      instances->index(), " of ", instances->count(),
      ". Have both set by popdist.tensorflow.set_ipu_config, or by update_ipu_config of the "
      "strategy.");
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

void Instances::Exchange(const std::string& key, const ExchangeLabel& label, bool compare,
                         std::vector<Parcel> parcels, CancellationManager* cancellation,
                         tensorflow::StatusCallback done) {
  std::set<int> others;
  for (const Parcel& parcel : parcels) others.insert(parcel.instance);
  auto* state = new Exchanging(compare ? WriteLabel(label) : "", std::move(parcels), &watch_,
                               cancellation, std::move(done));
  const Status known = watch_.Add(state, key, label.Text(), std::move(others));
  if (!known.ok()) return state->End(known);
  CancellationManager* cancelling = state->cancellation();
  for (size_t p = 0; p < state->parcels.size(); ++p) {
    Parcel& parcel = state->parcels[p];
    const int other = parcel.instance;
    const std::string out = StrCat(key, ";", index_, ">", other);
    const std::string in = StrCat(key, ";", other, ">", index_);
    if (state->written[p].NumElements() > 0) {
      Send(other, out, &state->written[p], cancelling, state->BeginSending(other));
    }
    if (state->received[p].NumElements() > 0) {
      Receive(other, in, &state->received[p], cancelling, state->BeginLetter(p));
    }
    // With the size in its name, a tensor that does not fit is not received: labels tell why.
    const auto for_each = [](const std::string& direction, std::vector<Tensor>& tensors,
                             const auto& move) {
      const std::vector<size_t> places = PlacesIn(tensors);
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (places[i] > 0) continue;
        move(StrCat(direction, ";", i, ";", tensors[i].TotalBytes()), &tensors[i]);
      }
    };
    for_each(out, parcel.give, [&](const std::string& name, Tensor* tensor) {
      Send(other, name, tensor, cancelling, state->Begin(other));
    });
    for_each(in, parcel.take, [&](const std::string& name, Tensor* tensor) {
      Receive(other, name, tensor, cancelling, state->Begin(other));
    });
  }
  state->LetterEnds();
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
