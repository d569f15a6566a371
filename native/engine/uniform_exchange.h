// How the replicas of a launch get values that only the first of them computes.
#ifndef TENSORFLOW_IPU_ENGINE_UNIFORM_EXCHANGE_H_
#define TENSORFLOW_IPU_ENGINE_UNIFORM_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// One launch's exchange. Replica 0 is the leader: it computes what is equal on all replicas and
// publishes it; the others, its followers, take it. What was published is kept until all have it,
// and the leader's iteration lasts as long: so it is not ahead by more than that.
//
// A variable that all replicas share is written by the leader when all followers have arrived at
// the write: they have read what they read before it. They wait for it in the same way as for a
// value. No thread waits here. Thread-safe.
class UniformExchange {
 public:
  // One execution of a node: in which frame, and in which iteration of it.
  struct Key {
    int64_t node;
    uint64_t frame;
    int64_t iteration;

    bool operator==(const Key& other) const {
      return node == other.node && frame == other.frame && iteration == other.iteration;
    }
  };
  using Values = std::vector<tensorflow::Tensor>;
  using Receive = std::function<void(const tensorflow::Status&, const Values&)>;

  explicit UniformExchange(int num_replicas);

  // The leader has computed `values`. Calls `done` when all followers have taken them, or need not
  // any more.
  void Publish(const Key& key, Values values, std::function<void()> done);
  // Calls `receive` when the leader has published, or an error ends the wait of `replica`.
  void Take(const Key& key, int replica, Receive receive);
  // A follower has come to a write.
  void Arrive(const Key& key, int replica);
  // Calls `receive`, with no values, when all followers have arrived.
  void AwaitArrivals(const Key& key, Receive receive);

  // Ends all that `replica` waits for, and will.
  void Cancel(int replica);
  // `replica` has ended with an error, and the others need not. It takes nothing any more, and
  // reads nothing. Those that wait for the leader end when it has ended.
  void End(int replica);

 private:
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Waiter {
    int replica;
    Receive receive;
  };
  struct Entry {
    bool published = false;
    Values values;
    std::vector<bool> taken, arrived;  // by replica
    std::vector<Waiter> followers;
    Receive leader;                     // waits for arrivals
    std::function<void()> leader_done;  // waits until all have taken
  };

  Entry& EntryOf(const Key& key) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether all followers that have not ended are in a set.
  bool HasAll(const std::vector<bool>& replicas) const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether a follower may wait for the leader.
  bool MayWait(int replica) const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends waits that have come to an end because replicas have.
  void EndWaits();

  const int num_replicas_;
  tensorflow::mutex mu_;
  std::unordered_map<Key, Entry, KeyHash> entries_ TF_GUARDED_BY(mu_);
  std::vector<bool> cancelled_ TF_GUARDED_BY(mu_);
  std::vector<bool> ended_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_UNIFORM_EXCHANGE_H_
