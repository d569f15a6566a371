// Programs that answer calls while they run: the engines of the embedded runtime.
#ifndef TENSORFLOW_IPU_ENGINE_APPLICATION_H_
#define TENSORFLOW_IPU_ENGINE_APPLICATION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/feeds/dataset_reader.h"
#include "engine/launch.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {

// The tensors of all feeds of one kind, feed by feed.
struct FeedTensors {
  std::vector<int> sizes;  // how many tensors each feed has
  std::vector<tensorflow::DataType> types;
  std::vector<tensorflow::PartialTensorShape> shapes;

  // The position of the first tensor of a feed.
  int First(int feed) const;
};

// What an application is made from.
struct ApplicationOptions {
  std::string name;
  int ordinal;  // of a device of its own
  FeedTensors infeeds;
  FeedTensors outfeeds;
  int64_t timeout_microseconds;
};

// A program with a device and variables of its own, which a thread runs again and again as long as
// there are calls to answer. A call is one batch: an element of each infeed, and then one of each
// outfeed. Without outfeeds, the results of the program are what a call gets.
//
// Batch k is for replica k mod R. When the program waits for a batch that nobody sends, while
// somebody waits for the answer of another, it gets zeros after a while, so that it goes on.
//
// Lives until the process ends. Thread-safe.
class Application {
 public:
  using Done = std::function<void(const tensorflow::Status&, Element)>;
  static constexpr uint64_t kNoCall = ~uint64_t{0};
  using Receiver = std::function<void(const tensorflow::Status&, Element)>;

  // Gives the application of that name, or null.
  static Application* Find(const std::string& name);
  // Gives the application that runs on a device that DeviceState::Add made, or null.
  static Application* Of(int ordinal);
  // Starts an application, unless there is one of that name. It must be of the same program then.
  static tensorflow::Status Start(ApplicationOptions options, LoadedProgram loaded,
                                  std::vector<LaunchArgument> arguments);

  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  // Has `inputs` processed. `done` is called once, perhaps before this returns. Returns a number
  // for Cancel.
  uint64_t Call(Element inputs, Done done);
  // Has the `done` of a call called with an error, unless it was called. The batch still runs.
  void Cancel(uint64_t call);

  // For ops of the program: the next element of an infeed, and one for an outfeed.
  void Receive(int infeed, int replica, tensorflow::CancellationManager* cancellation,
               Receiver receiver);
  tensorflow::Status Send(int outfeed, int replica, Element element);

  // An error if the program is another than that of this identifier.
  tensorflow::Status CheckRuns(const std::string& program) const;

 private:
  struct Batch {
    Element inputs;
    std::vector<Element> outputs;  // of each outfeed
    size_t missing;                // outputs
    Done done;                     // of the call, until it has an answer
  };
  struct Waiter {
    uint64_t id;
    int infeed;
    int replica;
    tensorflow::CancellationManager* cancellation;
    tensorflow::CancellationToken token;
    Receiver receiver;
  };
  // What to call once the lock is released.
  using Calls = std::vector<std::function<void()>>;

  Application(ApplicationOptions options, LoadedProgram loaded,
              std::vector<LaunchArgument> arguments);

  int num_replicas() const { return loaded_->program->replicas; }
  size_t num_outputs() const;  // of a batch: one for each outfeed
  tensorflow::Status Check(const Element& inputs) const;

  void RunForever();
  void WaitForCall();
  tensorflow::Status RunOnce();
  void Finish(tensorflow::Status status);
  std::vector<LaunchArgument> Arguments() const;

  Batch& At(uint64_t number) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AddWaiter(Waiter waiter, Receiver* receiver) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CancelWaiter(uint64_t id);
  void Serve(Calls* calls) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Element TakeInput(int infeed, int replica) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Answer(Batch* batch, const tensorflow::Status& status, Calls* calls)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropAnswered() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t EndOfTaken(bool failed) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushLater() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Flush(uint64_t progress);
  Element Zeros() const;

  const ApplicationOptions options_;
  const std::shared_ptr<const LoadedProgram> loaded_;
  const std::vector<LaunchArgument> arguments_;
  std::function<void(std::function<void()>)> runner_;

  tensorflow::mutex mu_;
  tensorflow::condition_variable called_;
  std::deque<Batch> batches_ TF_GUARDED_BY(mu_);
  uint64_t first_ TF_GUARDED_BY(mu_) = 0;  // the number of batches_[0]
  uint64_t next_ TF_GUARDED_BY(mu_) = 0;   // the batch of the next call
  size_t open_ TF_GUARDED_BY(mu_) = 0;     // calls without an answer
  // The next batch of each feed on each replica.
  std::vector<std::vector<uint64_t>> received_ TF_GUARDED_BY(mu_);
  std::vector<std::vector<uint64_t>> sent_ TF_GUARDED_BY(mu_);
  std::deque<Waiter> waiters_ TF_GUARDED_BY(mu_);
  uint64_t next_waiter_ TF_GUARDED_BY(mu_) = 0;
  uint64_t progress_ TF_GUARDED_BY(mu_) = 0;  // changes whenever anything happens
  bool flush_pending_ TF_GUARDED_BY(mu_) = false;
  // Whether the program has received or sent anything in this run.
  bool moved_ TF_GUARDED_BY(mu_) = false;
  bool ended_ TF_GUARDED_BY(mu_) = false;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_APPLICATION_H_
