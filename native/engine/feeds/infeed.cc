#include "engine/feeds/infeed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "engine/feeds/narrow.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::CancellationManager;
using tensorflow::mutex_lock;
using tensorflow::Status;
using tensorflow::errors::FailedPrecondition;

// Small elements are read further ahead than the user asks for, as far as these allow, so that
// the reading thread wakes once for many steps instead of once for each.
constexpr size_t kReadAheadBytes = 256 << 10;
constexpr size_t kReadAheadGroups = 64;

size_t ElementBytes(const InfeedOptions& options) {
  size_t bytes = 0;
  for (size_t i = 0; i < options.types.size(); ++i) {
    bytes += options.shapes[i].num_elements() * tensorflow::DataTypeSize(options.types[i]);
  }
  return std::max<size_t>(bytes, 1);
}

size_t Capacity(const InfeedOptions& options, int num_replicas) {
  const size_t affordable = kReadAheadBytes / (ElementBytes(options) * num_replicas);
  const size_t asked = std::max(options.prefetch_depth, 1);
  return std::max(asked, std::min(affordable, kReadAheadGroups));
}

Status Ended() {
  return tensorflow::errors::OutOfRange(
      "Infeed dataset iterator out of range: the program asked for more elements than the "
      "dataset has. Repeat the dataset, or run fewer iterations.");
}

Status Empty() {
  return tensorflow::errors::OutOfRange(
      "Infeed dataset iterator out of range: the dataset has no elements. With "
      "batch(..., drop_remainder=True), a dataset of fewer samples than the batch size has none: "
      "choose a smaller batch size.");
}

Status EndOfArrays() {
  return tensorflow::errors::OutOfRange(
      "The program asked for more elements of an infeed than it was filled with.");
}

// The nodes that the error names are the dataset's: without TensorFlow's tags, nobody takes them
// for those of the program.
Status Failed(const Status& cause) {
  const std::string text = absl::StrReplaceAll(
      cause.ToString(),
      {{"{{function_node ", "dataset function "}, {"{{node ", "dataset op "}, {"}}", ""}});
  return Status(cause.code(), tensorflow::strings::StrCat(
                                  "An infeed dataset iterator has failed with status: ", text));
}

}  // namespace

Infeed::Infeed(InfeedOptions options, std::unique_ptr<DatasetReader> dataset)
    : options_(std::move(options)),
      has_dataset_(dataset != nullptr),
      dataset_(std::move(dataset)) {}

Infeed::~Infeed() { Stop(tensorflow::errors::Cancelled("The infeed has been deleted.")); }

void Infeed::GetNextAsync(const InfeedReader& reader, CancellationManager* cancellation,
                          Callback callback) {
  Status status;
  Element element;
  {
    mutex_lock lock(mu_);
    status = Prepare(reader);
    if (status.ok()) {
      Lane& lane = lanes_[reader.replica];
      if (!lane.elements.empty()) {
        element = Take(&lane);
      } else if (!end_.ok()) {
        status = end_;
      } else if (AddWaiter(&lane, cancellation, &callback)) {
        return;
      } else {
        status = tensorflow::errors::Cancelled("Waiting for an infeed element was cancelled.");
      }
    }
  }
  callback(status, std::move(element));
}

Status Infeed::Prepare(const InfeedReader& reader) {
  if (!has_dataset_ && lanes_.empty()) Deal(reader.num_replicas);
  if (has_dataset_ && thread_ == nullptr && end_.ok()) StartReading(reader.num_replicas);
  if (lanes_.empty()) return end_;
  const int num_replicas = static_cast<int>(lanes_.size());
  if (num_replicas != reader.num_replicas) {
    return FailedPrecondition("The infeed queue ", options_.name,
                              " is used by programs with different replication "
                              "factors: first ",
                              num_replicas, ", now ", reader.num_replicas,
                              ". Create one IPUInfeedQueue for each replication factor.");
  }
  if (reader.launch_id > launch_id_) {
    launch_id_ = reader.launch_id;
    held_bytes_ = 0;
    AlignLanes();
  }
  if (reader.held_bytes > held_bytes_) {
    held_bytes_ = reader.held_bytes;
    if (reader_waits_) room_.notify_one();
  }
  return tensorflow::OkStatus();
}

void Infeed::StartReading(int num_replicas) {
  lanes_.resize(num_replicas);
  capacity_ = Capacity(options_, num_replicas);
  thread_.reset(tensorflow::Env::Default()->StartThread(
      {}, "ipu_infeed",
      [this, dataset = dataset_.get(), num_replicas] { ReadAll(dataset, num_replicas); }));
}

void Infeed::Fill(std::vector<Element> elements) {
  std::vector<Lane> left;  // released without the lock
  mutex_lock lock(mu_);
  left.swap(lanes_);
  filled_ = std::move(elements);
  end_ = EndOfArrays();
}

void Infeed::Deal(int num_replicas) {
  lanes_.resize(num_replicas);
  const size_t groups = filled_.size() / num_replicas;
  for (size_t i = 0; i < groups * num_replicas; ++i) {
    lanes_[i % num_replicas].elements.push_back(std::move(filled_[i]));
  }
  filled_.clear();
}

// A launch that failed may have left some replicas further than others. The next one starts on a
// whole group again.
void Infeed::AlignLanes() {
  uint64_t furthest = 0;
  for (const Lane& lane : lanes_) furthest = std::max(furthest, lane.taken);
  for (Lane& lane : lanes_) {
    while (lane.taken < furthest) Take(&lane);
  }
}

Element Infeed::Take(Lane* lane) {
  Element element = std::move(lane->elements.front());
  lane->elements.pop_front();
  ++lane->taken;
  if (reader_waits_ && lane->elements.size() <= capacity_ / 2) room_.notify_one();
  return element;
}

// Returns false, leaving `callback` alone, when `cancellation` has already been cancelled.
bool Infeed::AddWaiter(Lane* lane, CancellationManager* cancellation, Callback* callback) {
  Waiter waiter{next_waiter_++, cancellation, CancellationManager::kInvalidToken, nullptr};
  if (cancellation != nullptr) {
    const int replica = static_cast<int>(lane - lanes_.data());
    waiter.token = cancellation->get_cancellation_token();
    const bool registered = cancellation->RegisterCallback(
        waiter.token, [infeed = weak_from_this(), replica, id = waiter.id] {
          if (auto alive = infeed.lock()) alive->CancelWaiter(replica, id);
        });
    if (!registered) return false;
  }
  waiter.callback = std::move(*callback);
  lane->waiters.push_back(std::move(waiter));
  return true;
}

void Infeed::CancelWaiter(int replica, uint64_t id) {
  Callback callback;
  {
    mutex_lock lock(mu_);
    auto& waiters = lanes_[replica].waiters;
    const auto found = std::find_if(waiters.begin(), waiters.end(),
                                    [id](const Waiter& waiter) { return waiter.id == id; });
    if (found == waiters.end()) return;
    callback = std::move(found->callback);
    waiters.erase(found);
  }
  callback(tensorflow::errors::Cancelled("Waiting for an infeed element was cancelled."), {});
}

void Infeed::Finish(Waiter waiter, const Status& status, Element element) {
  // A cancellation that has begun finds the waiter gone and does nothing, so there is no need to
  // wait for it.
  if (waiter.cancellation != nullptr) waiter.cancellation->TryDeregisterCallback(waiter.token);
  waiter.callback(status, std::move(element));
}

bool Infeed::used() {
  mutex_lock lock(mu_);
  return !lanes_.empty();
}

bool Infeed::ended() {
  mutex_lock lock(mu_);
  if (end_.ok() || !filled_.empty()) return false;
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.elements.empty(); });
}

void Infeed::Interrupt(const Status& reason) {
  {
    mutex_lock lock(mu_);
    if (dataset_ != nullptr) dataset_->Cancel();
  }
  End(reason);
}

bool Infeed::WaitUntilStopped(int64_t microseconds) {
  {
    mutex_lock lock(mu_);
    if (thread_ == nullptr) return true;
  }
  return stopped_.WaitForNotificationWithTimeout(absl::Microseconds(microseconds));
}

void Infeed::Leave() {
  mutex_lock lock(mu_);
  thread_.release();   // NOLINT: destroying it would join it
  dataset_.release();  // NOLINT: the thread has it
}

void Infeed::Stop(const Status& reason) {
  mutex_lock stop_lock(stop_mu_);
  Interrupt(reason);
  std::unique_ptr<DatasetReader> dataset;
  std::unique_ptr<tensorflow::Thread> thread;  // joined when it is destroyed, before the dataset
  {
    mutex_lock lock(mu_);
    for (Lane& lane : lanes_) lane.elements.clear();
    filled_.clear();
    dataset = std::move(dataset_);
    thread = std::move(thread_);
  }
}

void Infeed::ReadAll(DatasetReader* dataset, int num_replicas) {
  while (WaitForRoom()) {
    Group group(num_replicas);
    const Status status = ReadGroup(dataset, &group);
    if (status.ok()) {
      Deliver(std::move(group));
    } else {
      End(status);
    }
  }
  stopped_.Notify();
}

Status Infeed::ReadGroup(DatasetReader* dataset, Group* group) {
  for (Element& element : *group) {
    bool end = false;
    Status status = dataset->GetNext(&element, &end);
    if (status.ok() && end) return read_any_ ? Ended() : Empty();
    read_any_ = true;
    if (status.ok()) status = CheckElement(element);
    if (!status.ok()) return Failed(status);
    for (tensorflow::Tensor& tensor : element) NarrowToDevice(&tensor);
  }
  return tensorflow::OkStatus();
}

Status Infeed::CheckElement(const Element& element) const {
  if (element.size() != options_.types.size()) {
    return tensorflow::errors::InvalidArgument("an element has ", element.size(),
                                               " tensors, expected ", options_.types.size());
  }
  for (size_t i = 0; i < element.size(); ++i) {
    if (element[i].dtype() != options_.types[i] || element[i].shape() != options_.shapes[i]) {
      return tensorflow::errors::InvalidArgument(
          "tensor ", i, " of an element is ", tensorflow::DataTypeString(element[i].dtype()),
          element[i].shape().DebugString(), ", but the dataset declares ",
          tensorflow::DataTypeString(options_.types[i]), options_.shapes[i].DebugString(),
          ". All elements of an infeed must have the declared type and shape");
    }
  }
  return tensorflow::OkStatus();
}

// Whether there may be another group: no lane has `limit` elements, or one is about to run empty
// and those that are ahead of it are small.
bool Infeed::HasRoom(size_t limit) {
  const auto [emptiest, fullest] = std::minmax_element(
      lanes_.begin(), lanes_.end(),
      [](const Lane& a, const Lane& b) { return a.elements.size() < b.elements.size(); });
  if (fullest->elements.size() < limit) return true;
  const size_t waiting_bytes = (fullest->elements.size() + 1) * ElementBytes(options_);
  return emptiest->elements.size() <= capacity_ / 2 && waiting_bytes <= held_bytes_;
}

// Returns whether to go on reading.
bool Infeed::WaitForRoom() {
  mutex_lock lock(mu_);
  if (end_.ok() && !HasRoom(capacity_)) {
    // Wait until half is free: waking for every element would cost more than reading it.
    reader_waits_ = true;
    while (end_.ok() && !HasRoom(capacity_ / 2 + 1)) room_.wait(lock);
    reader_waits_ = false;
  }
  return end_.ok();
}

void Infeed::Deliver(Group group) {
  std::vector<std::pair<Waiter, Element>> served;
  {
    mutex_lock lock(mu_);
    if (!end_.ok()) return;
    for (size_t replica = 0; replica < group.size(); ++replica) {
      Lane& lane = lanes_[replica];
      if (lane.waiters.empty()) {
        lane.elements.push_back(std::move(group[replica]));
      } else {
        served.emplace_back(std::move(lane.waiters.front()), std::move(group[replica]));
        lane.waiters.pop_front();
        ++lane.taken;
      }
    }
  }
  for (auto& [waiter, element] : served) {
    Finish(std::move(waiter), tensorflow::OkStatus(), std::move(element));
  }
}

void Infeed::End(const Status& reason) {
  std::vector<Waiter> waiters;
  {
    mutex_lock lock(mu_);
    if (end_.ok()) end_ = reason;
    for (Lane& lane : lanes_) {
      std::move(lane.waiters.begin(), lane.waiters.end(), std::back_inserter(waiters));
      lane.waiters.clear();
    }
    room_.notify_one();
  }
  for (Waiter& waiter : waiters) Finish(std::move(waiter), reason, {});
}

}  // namespace tensorflow_ipu
