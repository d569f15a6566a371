#include "engine/application.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "engine/device_state.h"
#include "engine/feeds/narrow.h"
#include "engine/interpreter.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::CancellationManager;
using tensorflow::mutex_lock;
using tensorflow::Status;
using tensorflow::Tensor;

Status Ending() { return tensorflow::errors::Cancelled("The process is ending."); }

struct Applications {
  tensorflow::mutex mu;
  std::unordered_map<std::string, Application*> by_name TF_GUARDED_BY(mu);
  std::unordered_map<int, Application*> by_ordinal TF_GUARDED_BY(mu);
};

// Never destroyed, as the applications: their threads may outlive the static objects.
Applications& All() {
  static auto* applications = new Applications;
  return *applications;
}

// The threads that run the ops of all applications.
tensorflow::thread::ThreadPool* Threads() {
  static auto* threads =
      new tensorflow::thread::ThreadPool(tensorflow::Env::Default(), "ipu_application",
                                         std::max(2, tensorflow::port::NumSchedulableCPUs()));
  return threads;
}

// There is no program of the user here, whose lines could take the place of TensorFlow's tags.
Status Untagged(const Status& status) {
  if (status.ok()) return status;
  return Status(
      status.code(),
      absl::StrReplaceAll(status.message(),
                          {{"{{function_node ", "function "}, {"{{node ", "op "}, {"}}", ""}}));
}

}  // namespace

int FeedTensors::First(int feed) const {
  return std::accumulate(sizes.begin(), sizes.begin() + feed, 0);
}

Application* Application::Find(const std::string& name) {
  Applications& all = All();
  mutex_lock lock(all.mu);
  const auto found = all.by_name.find(name);
  return found == all.by_name.end() ? nullptr : found->second;
}

Application* Application::Of(int ordinal) {
  Applications& all = All();
  mutex_lock lock(all.mu);
  const auto found = all.by_ordinal.find(ordinal);
  return found == all.by_ordinal.end() ? nullptr : found->second;
}

Status Application::Start(ApplicationOptions options, LoadedProgram loaded,
                          std::vector<LaunchArgument> arguments) {
  Applications& all = All();
  mutex_lock lock(all.mu);
  Application*& place = all.by_name[options.name];
  if (place != nullptr) {  // another thread was faster
    UnloadProgram(loaded);
    return place->CheckRuns(loaded.program->id);
  }
  place = new Application(std::move(options), std::move(loaded), std::move(arguments));
  all.by_ordinal[place->options_.ordinal] = place;
  // Destroying the thread would join it, but it ends with the process.
  [[maybe_unused]] const tensorflow::Thread* thread = tensorflow::Env::Default()->StartThread(
      {}, "ipu_application", [application = place] { application->RunForever(); });
  return tensorflow::OkStatus();
}

Application::Application(ApplicationOptions options, LoadedProgram loaded,
                         std::vector<LaunchArgument> arguments)
    : options_(std::move(options)),
      loaded_(std::make_shared<const LoadedProgram>(std::move(loaded))),
      arguments_(std::move(arguments)),
      runner_([](std::function<void()> closure) { Threads()->Schedule(std::move(closure)); }) {
  std::vector<uint64_t> replicas(num_replicas());
  std::iota(replicas.begin(), replicas.end(), 0);
  received_.assign(options_.infeeds.sizes.size(), replicas);
  sent_.assign(num_outputs(), replicas);
}

Status Application::CheckRuns(const std::string& program) const {
  if (program == loaded_->program->id) return tensorflow::OkStatus();
  return tensorflow::errors::AlreadyExists(
      "An engine called ", options_.name,
      " runs another program in this process. Engines run until the process ends: give each "
      "program an engine with a name of its own.");
}

size_t Application::num_outputs() const {
  return std::max<size_t>(options_.outfeeds.sizes.size(), 1);
}

Status Application::Check(const Element& inputs) const {
  const FeedTensors& expected = options_.infeeds;
  if (inputs.size() != expected.types.size()) {
    return tensorflow::errors::InvalidArgument("Embedded application call expects ",
                                               expected.types.size(), " inputs, but ",
                                               inputs.size(), " were provided.");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() == expected.types[i] &&
        expected.shapes[i].IsCompatibleWith(inputs[i].shape())) {
      continue;
    }
    return tensorflow::errors::InvalidArgument(
        "Mismatched input at position ", i, ". Expected ",
        tensorflow::DataTypeString(expected.types[i]), expected.shapes[i].DebugString(),
        ", but input ", i, " is ", tensorflow::DataTypeString(inputs[i].dtype()),
        inputs[i].shape().DebugString(), ".");
  }
  return tensorflow::OkStatus();
}

uint64_t Application::Call(Element inputs, Done done) {
  const Status fits = Check(inputs);
  if (!fits.ok()) {
    done(fits, {});
    return kNoCall;
  }
  for (Tensor& tensor : inputs) NarrowToDevice(&tensor);
  Calls calls;
  uint64_t number;
  {
    mutex_lock lock(mu_);
    number = next_;
    if (ended_) {
      calls.push_back([done = std::move(done)] { done(Ending(), {}); });
    } else {
      ++next_;
      ++progress_;
      Batch& batch = At(number);
      batch.inputs = std::move(inputs);
      batch.done = std::move(done);
      ++open_;
      if (batch.missing == 0) Answer(&batch, tensorflow::OkStatus(), &calls);
      DropAnswered();
      Serve(&calls);
      called_.notify_one();
    }
  }
  for (const auto& call : calls) call();
  return number;
}

void Application::Cancel(uint64_t call) {
  Calls calls;
  {
    mutex_lock lock(mu_);
    if (call >= first_ && call - first_ < batches_.size()) {
      Answer(&At(call), tensorflow::errors::Cancelled("The call was cancelled."), &calls);
    }
  }
  for (const auto& one : calls) one();
}

// Makes the batch when there is none: the program may send before somebody calls.
Application::Batch& Application::At(uint64_t number) {
  while (number - first_ >= batches_.size()) {
    batches_.push_back({{}, std::vector<Element>(num_outputs()), num_outputs(), nullptr});
  }
  return batches_[number - first_];
}

void Application::Answer(Batch* batch, const Status& status, Calls* calls) {
  if (batch->done == nullptr) return;
  --open_;
  Element outputs;
  if (status.ok()) {
    for (Element& element : batch->outputs) {
      std::move(element.begin(), element.end(), std::back_inserter(outputs));
    }
  }
  calls->push_back([done = std::move(batch->done), status = Untagged(status),
                    outputs = std::move(outputs)] { done(status, outputs); });
  batch->done = nullptr;
}

void Application::DropAnswered() {
  while (!batches_.empty() && first_ < next_ && batches_.front().missing == 0 &&
         batches_.front().done == nullptr) {
    batches_.pop_front();
    ++first_;
  }
}

Element Application::TakeInput(int infeed, int replica) {
  const Element& inputs = At(received_[infeed][replica]).inputs;
  const auto begin = inputs.begin() + options_.infeeds.First(infeed);
  received_[infeed][replica] += num_replicas();
  ++progress_;
  moved_ = true;
  return Element(begin, begin + options_.infeeds.sizes[infeed]);
}

void Application::Receive(int infeed, int replica, CancellationManager* cancellation,
                          Receiver receiver) {
  Status status;
  Element element;
  {
    mutex_lock lock(mu_);
    if (received_[infeed][replica] < next_) {
      element = TakeInput(infeed, replica);
    } else if (AddWaiter({next_waiter_++, infeed, replica, cancellation,
                          CancellationManager::kInvalidToken, nullptr},
                         &receiver)) {
      ++progress_;
      FlushLater();
      return;
    } else {
      status = tensorflow::errors::Cancelled("Waiting for a call was cancelled.");
    }
  }
  receiver(status, std::move(element));
}

// Returns false, leaving `receiver` alone, when the cancellation has already begun.
bool Application::AddWaiter(Waiter waiter, Receiver* receiver) {
  if (waiter.cancellation != nullptr) {
    waiter.token = waiter.cancellation->get_cancellation_token();
    if (!waiter.cancellation->RegisterCallback(waiter.token,
                                               [this, id = waiter.id] { CancelWaiter(id); })) {
      return false;
    }
  }
  waiter.receiver = std::move(*receiver);
  waiters_.push_back(std::move(waiter));
  return true;
}

void Application::CancelWaiter(uint64_t id) {
  Receiver receiver;
  {
    mutex_lock lock(mu_);
    const auto found = std::find_if(waiters_.begin(), waiters_.end(),
                                    [id](const Waiter& waiter) { return waiter.id == id; });
    if (found == waiters_.end()) return;
    receiver = std::move(found->receiver);
    waiters_.erase(found);
  }
  receiver(tensorflow::errors::Cancelled("Waiting for a call was cancelled."), {});
}

// Gives those who wait what is there now.
void Application::Serve(Calls* calls) {
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    if (received_[waiter->infeed][waiter->replica] >= next_) {
      ++waiter;
      continue;
    }
    calls->push_back(
        [served = std::move(*waiter), element = TakeInput(waiter->infeed, waiter->replica)] {
          // A cancellation that has begun finds the waiter gone.
          if (served.cancellation != nullptr) {
            served.cancellation->TryDeregisterCallback(served.token);
          }
          served.receiver(tensorflow::OkStatus(), element);
        });
    waiter = waiters_.erase(waiter);
  }
  FlushLater();
}

void Application::FlushLater() {
  if (flush_pending_ || waiters_.empty() || open_ == 0) return;
  flush_pending_ = true;
  tensorflow::Env::Default()->SchedClosureAfter(options_.timeout_microseconds,
                                                [this, progress = progress_] { Flush(progress); });
}

// Sends a batch of zeros if nothing has happened since `progress`. Else looks again later.
void Application::Flush(uint64_t progress) {
  Calls calls;
  {
    mutex_lock lock(mu_);
    flush_pending_ = false;
    if (waiters_.empty() || open_ == 0) return;
    if (progress != progress_) return FlushLater();
    At(next_).inputs = Zeros();
    ++next_;
    Serve(&calls);
  }
  for (const auto& call : calls) call();
}

Element Application::Zeros() const {
  Element zeros;
  for (size_t i = 0; i < options_.infeeds.types.size(); ++i) {
    tensorflow::TensorShape shape;
    options_.infeeds.shapes[i].AsTensorShape(&shape);
    Tensor tensor(options_.infeeds.types[i], shape);
    const tensorflow::StringPiece bytes = tensor.tensor_data();
    std::fill_n(const_cast<char*>(bytes.data()), bytes.size(), 0);
    zeros.push_back(std::move(tensor));
  }
  return zeros;
}

Status Application::Send(int outfeed, int replica, Element element) {
  for (Tensor& tensor : element) NarrowToDevice(&tensor);
  Calls calls;
  {
    mutex_lock lock(mu_);
    uint64_t& number = sent_[outfeed][replica];
    if (number >= first_) {
      Batch& batch = At(number);
      batch.outputs[outfeed] = std::move(element);
      if (--batch.missing == 0) Answer(&batch, tensorflow::OkStatus(), &calls);
      DropAnswered();
    }
    number += options_.outfeeds.sizes.empty() ? 1 : num_replicas();
    ++progress_;
    moved_ = true;
  }
  for (const auto& call : calls) call();
  return tensorflow::OkStatus();
}

void Application::RunForever() {
  for (;;) {
    WaitForCall();
    Finish(RunOnce());
    mutex_lock lock(mu_);
    if (ended_) return;
  }
}

void Application::WaitForCall() {
  mutex_lock lock(mu_);
  while (open_ == 0) called_.wait(lock);
}

Status Application::RunOnce() {
  absl::Notification ended;
  Status status;
  std::vector<Tensor> results;
  Launch(loaded_, options_.ordinal, tensorflow_ipu::Waiter::kEngine, {&runner_, nullptr},
         Arguments(), [&](const Status& launched, std::vector<Tensor> values) {
           status = launched;
           results = std::move(values);
           ended.Notify();
         });
  ended.WaitForNotification();
  if (status.ok() && options_.outfeeds.sizes.empty()) return Send(0, 0, std::move(results));
  return status;
}

std::vector<LaunchArgument> Application::Arguments() const {
  std::vector<LaunchArgument> copies(arguments_.size());
  for (size_t i = 0; i < copies.size(); ++i) {
    copies[i].tensor = arguments_[i].tensor;
    if (arguments_[i].variable == nullptr) continue;
    arguments_[i].variable->Ref();
    copies[i].variable.reset(arguments_[i].variable.get());
  }
  return copies;
}

// The first batch that the program has not taken, on no replica and of no feed. With an error of a
// program that reads nothing: the first that nobody has asked for.
uint64_t Application::EndOfTaken(bool failed) {
  uint64_t end = failed && received_.empty() ? next_ : first_;
  for (const auto& cursors : received_.empty() ? sent_ : received_) {
    for (size_t replica = 0; replica < cursors.size(); ++replica) {
      end = std::max(end, cursors[replica] - replica);
    }
  }
  return end;
}

// Answers the calls whose batches the program took and left without an answer, and has all feeds go
// on with the batch after those.
void Application::Finish(Status status) {
  Calls calls;
  {
    mutex_lock lock(mu_);
    ended_ = Interpreter::has_ended();
    const bool failed = !status.ok();
    uint64_t end = EndOfTaken(failed);
    // No later run would do more.
    if (!failed && !moved_) end = next_;
    moved_ = false;
    if (ended_) end = next_;
    // An error may leave a group incomplete: its other batches are for nobody.
    if (!received_.empty()) next_ = std::max(next_, end);
    if (!failed) {
      status = tensorflow::errors::FailedPrecondition(
          "The program of the engine ", options_.name,
          " ended without an answer to a call: it sends fewer elements to its outfeeds than it "
          "reads from its infeeds. Enqueue one element in each iteration.");
    }
    for (uint64_t number = first_; number < std::min(end, next_); ++number) {
      Batch& batch = At(number);
      Answer(&batch, status, &calls);
      batch.missing = 0;
    }
    DropAnswered();
    for (auto& cursors : received_) {
      for (size_t replica = 0; replica < cursors.size(); ++replica) {
        cursors[replica] = end + replica;
      }
    }
    for (auto& cursors : sent_) {
      for (size_t replica = 0; replica < cursors.size(); ++replica) {
        cursors[replica] = std::max(cursors[replica], end + replica);
      }
    }
  }
  for (const auto& call : calls) call();
}

}  // namespace tensorflow_ipu
