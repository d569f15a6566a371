// The native half of an infeed: deals the elements of a dataset, or of arrays, to replicas.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_INFEED_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_INFEED_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/feeds/dataset_reader.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {

// What an infeed is made from.
struct InfeedOptions {
  std::string name;
  std::vector<tensorflow::DataType> types;
  std::vector<tensorflow::TensorShape> shapes;
  // Elements for each replica that are read before they are needed, at least.
  int prefetch_depth;
};

// Who asks an infeed for an element.
struct InfeedReader {
  uint64_t launch_id;
  int replica;
  int num_replicas;
  // Memory that the replica keeps while it waits for an element.
  size_t held_bytes;
};

// Elements pass from one reading thread to one lane for each replica: element k of the dataset
// goes to replica k mod R. The lanes are filled a group (one element for each replica) at a time,
// so a group that the dataset cannot complete is never seen. What a launch leaves in the lanes is
// there for the next one.
//
// Replicas take turns, so one may be mini-batches ahead of the others. If it waited for an element,
// the next replica would begin, and both would hold their accumulators. So its lane does not run
// empty as long as the elements that wait for another replica are smaller than accumulators.
//
// Without a dataset, the elements are those of the last Fill. Nothing reads them: the first program
// that asks has them dealt. Thread-safe.
class Infeed : public std::enable_shared_from_this<Infeed> {
 public:
  using Callback = std::function<void(const tensorflow::Status&, Element)>;

  // `dataset` is null for an infeed that Fill is for.
  Infeed(InfeedOptions options, std::unique_ptr<DatasetReader> dataset);
  ~Infeed();

  // Calls `callback` with the next element of `reader`: at once when it is waiting, else from
  // another thread. The first call fixes the number of replicas and starts the reading.
  void GetNextAsync(const InfeedReader& reader, tensorflow::CancellationManager* cancellation,
                    Callback callback);

  // Has programs read `elements` from now on, and come to the end after them. What is left of those
  // before goes.
  void Fill(std::vector<Element> elements);

  // Whether a program has asked for an element, or the dataset has ended or failed.
  bool used();
  bool ended();

  // Ends the reading, fails all who wait, with `reason`, and deletes the dataset, whose device and
  // resources may be deleted before this infeed. Blocks until the dataset is deleted, even if
  // another thread deletes it.
  void Stop(const tensorflow::Status& reason);

  // Stop in steps, for when the dataset may never return: ask it to stop, see whether it has, and
  // give up, after which nobody waits for it any more.
  void Interrupt(const tensorflow::Status& reason);
  bool WaitUntilStopped(int64_t microseconds);
  void Leave();

 private:
  struct Waiter {
    uint64_t id;
    tensorflow::CancellationManager* cancellation;
    tensorflow::CancellationToken token;
    Callback callback;
  };
  struct Lane {
    std::deque<Element> elements;
    std::deque<Waiter> waiters;  // only while `elements` is empty
    uint64_t taken = 0;
  };
  using Group = std::vector<Element>;

  tensorflow::Status Prepare(const InfeedReader& reader) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartReading(int num_replicas) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Deal(int num_replicas) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AlignLanes() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Element Take(Lane* lane) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AddWaiter(Lane* lane, tensorflow::CancellationManager* cancellation, Callback* callback)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CancelWaiter(int replica, uint64_t id);
  static void Finish(Waiter waiter, const tensorflow::Status& status, Element element);

  void ReadAll(DatasetReader* dataset, int num_replicas);
  tensorflow::Status ReadGroup(DatasetReader* dataset, Group* group);
  tensorflow::Status CheckElement(const Element& element) const;
  bool HasRoom(size_t limit) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool WaitForRoom();
  void Deliver(Group group);
  void End(const tensorflow::Status& reason);

  const InfeedOptions options_;
  const bool has_dataset_;
  bool read_any_ = false;  // whether the reading thread has had an element of the dataset

  absl::Notification stopped_;  // by the reading thread, as its last act
  tensorflow::mutex stop_mu_;   // held during Stop; taken before mu_
  tensorflow::mutex mu_;
  tensorflow::condition_variable room_;
  std::vector<Lane> lanes_ TF_GUARDED_BY(mu_);
  std::vector<Element> filled_ TF_GUARDED_BY(mu_);  // and not dealt yet
  size_t capacity_ TF_GUARDED_BY(mu_) = 0;          // groups
  bool reader_waits_ TF_GUARDED_BY(mu_) = false;
  size_t held_bytes_ TF_GUARDED_BY(mu_) = 0;  // most of a replica of the launch
  uint64_t launch_id_ TF_GUARDED_BY(mu_) = 0;
  uint64_t next_waiter_ TF_GUARDED_BY(mu_) = 0;
  tensorflow::Status end_ TF_GUARDED_BY(mu_);                  // not OK: why no more elements come
  std::unique_ptr<DatasetReader> dataset_ TF_GUARDED_BY(mu_);  // null after Stop and Leave
  std::unique_ptr<tensorflow::Thread> thread_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_INFEED_H_
