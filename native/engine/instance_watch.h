// Notices when other instances of the program fail, end, or keep this one waiting.
#ifndef TENSORFLOW_IPU_ENGINE_INSTANCE_WATCH_H_
#define TENSORFLOW_IPU_ENGINE_INSTANCE_WATCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// What the watch needs of the connection to the other instances.
struct InstanceConnection {
  using Done = tensorflow::StatusCallback;

  std::function<void(int to, const std::string& key, const tensorflow::Tensor* tensor,
                     tensorflow::CancellationManager* cancellation, Done done)>
      send;
  std::function<void(int from, const std::string& key, tensorflow::Tensor* tensor,
                     tensorflow::CancellationManager* cancellation, Done done)>
      receive;
  // Asks an instance whether it is there.
  std::function<void(int instance, int64_t milliseconds, Done done)> check;
};

// One exchange between instances, as far as ending it is concerned.
class WatchedExchange {
 public:
  virtual ~WatchedExchange() = default;

  // Keeps the exchange from ending until Fail. False if it is ending already.
  virtual bool Pin() = 0;
  // Makes the exchange end soon, with `status`. For who has pinned it.
  virtual void Fail(const tensorflow::Status& status) = 0;
};

// Three things end an exchange that would not end by itself. An instance whose launch fails tells
// all others. One that has ended or does not answer any more is noticed here: by the connection,
// and by asking all of them every two seconds. And an exchange has a time limit, for an instance
// that lives but does not come; long before that, a warning says who waits for whom.
// Nothing of this is in Python. Thread-safe.
class InstanceWatch {
 public:
  // `addresses` are those of all instances, by which messages name them; this one is number `index`
  // of them. No exchange waits longer than `limit` seconds.
  InstanceWatch(int index, std::vector<std::string> addresses, double limit,
                InstanceConnection connection);

  // An exchange with `others` begins, at what `label` describes. An error if it can never end: it
  // is not watched then. In a launch, the key begins with its name and a semicolon.
  tensorflow::Status Add(WatchedExchange* exchange, const std::string& key,
                         const std::string& label, std::set<int> others);
  // One of the others is there.
  void HasCome(WatchedExchange* exchange, int instance);
  // Forgets an exchange. Once this returns, nobody comes to pin it.
  void Remove(WatchedExchange* exchange);
  // A message to or from an instance has failed. Returns the reason.
  tensorflow::Status CauseOf(int instance, const tensorflow::Status& status);

  // Tells the others that the launch with a name has failed here: exchanges in it fail there.
  // `text` is for users, and says where it has failed.
  void Tell(const std::string& launch, const tensorflow::Status& status, const std::string& text);

  int index() const { return index_; }
  // "1 (host:port)".
  std::string NameOf(int instance) const;

  // For the end of the process: sends what is not sent yet, and waits for nothing any more. Takes
  // a few seconds at most.
  void ShutDown();

 private:
  struct Entry {
    std::string key, label;
    std::set<int> others, missing;  // those that have not come yet
    uint64_t began;                 // microseconds
    bool warned = false;
  };
  // A launch that has failed in another instance.
  struct Fault {
    int instance;
    std::string launch;
    tensorflow::Status status;
    // Its data have come to their end, as they may everywhere. What it had sent before is still
    // good, so only exchanges that it has not come to fail, some time after it has told.
    bool is_end;
    uint64_t told;  // microseconds
  };
  // Exchanges to fail without the lock: they may end in this, and others begin.
  using Failing = std::vector<std::pair<WatchedExchange*, tensorflow::Status>>;

  void Listen(int instance);
  void OnMessage(int instance, const std::string& message);
  void OnHealth(int instance, const tensorflow::Status& status);
  void SetState(int instance, const tensorflow::Status& state);
  void Run();
  void AskAll();
  void LookAtWaits();
  tensorflow::Status FaultIn(const Entry& entry, uint64_t now) const
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string Waits(const Entry& entry, uint64_t now) const;
  static void Fail(const Failing& failing);
  void WaitUntil(tensorflow::mutex_lock& lock, const std::function<bool()>& reached)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int index_;
  const std::vector<std::string> addresses_;
  const uint64_t limit_, warning_;  // microseconds
  const InstanceConnection connection_;
  // Of what waits for messages about faults, and of sending them.
  tensorflow::CancellationManager listening_, telling_;

  tensorflow::mutex mu_;
  tensorflow::condition_variable change_;
  std::vector<tensorflow::Status> states_ TF_GUARDED_BY(mu_);  // OK while an instance answers
  std::vector<bool> ended_ TF_GUARDED_BY(mu_);
  std::vector<bool> asked_ TF_GUARDED_BY(mu_);
  std::vector<uint64_t> told_ TF_GUARDED_BY(mu_), heard_ TF_GUARDED_BY(mu_);  // messages
  std::unordered_map<WatchedExchange*, Entry> exchanges_ TF_GUARDED_BY(mu_);
  std::deque<Fault> faults_ TF_GUARDED_BY(mu_);
  std::vector<int> sending_ TF_GUARDED_BY(mu_);
  int waiting_ TF_GUARDED_BY(mu_) = 0;
  bool stopped_ TF_GUARDED_BY(mu_) = false;
  std::unique_ptr<tensorflow::Thread> thread_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_INSTANCE_WATCH_H_
