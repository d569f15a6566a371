// The native half of an IPUOutfeedQueue: what programs have sent to the host.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_OUTFEED_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_OUTFEED_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/launch_context.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {

enum class OutfeedMode { kAll, kLast };

// The values that an outfeed hands to the host: `groups` times `num_replicas` elements.
// `tensors` holds them by group, then replica, then component of the element.
struct OutfeedValues {
  int num_replicas = 1;
  int64_t groups = 0;
  std::deque<tensorflow::Tensor> tensors;
  std::vector<tensorflow::DataType> types;
  std::vector<tensorflow::TensorShape> shapes;

  // All the values of one component, with shape [groups, num_replicas] + S. The replica dimension
  // is left out when there is one replica, and the group dimension when `with_groups` is false.
  tensorflow::Status Stack(size_t component, bool with_groups, tensorflow::Tensor* out) const;

  // The same into memory of the host, for types without objects. If `rows` is not null, it has the
  // place of each replica's value among those of a group, or -1 to leave it out.
  void CopyTo(size_t component, const int64_t* rows, void* memory) const;
};

// Each replica has its own lane. The host sees whole groups only: one element from each replica.
// Values are references to the program's tensors until the host takes them. Thread-safe.
class Outfeed {
 public:
  Outfeed(std::string name, OutfeedMode mode) : name_(std::move(name)), mode_(mode) {}

  // Adds the inputs of `ctx` as the next element of a replica. The first call fixes the types, the
  // shapes and the number of replicas.
  tensorflow::Status Enqueue(const LaunchContext& launch, tensorflow::OpKernelContext* ctx);

  // Takes all whole groups that are waiting: any number in mode ALL, one or none in mode LAST.
  OutfeedValues TakeAll();

 private:
  struct Lane {
    std::deque<tensorflow::Tensor> tensors;
    uint64_t elements = 0;  // waiting
  };

  void Begin(const LaunchContext& launch, tensorflow::OpKernelContext* ctx)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  tensorflow::Status Check(const LaunchContext& launch, tensorflow::OpKernelContext* ctx)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t WholeGroups() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropPartialGroups() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  const OutfeedMode mode_;
  tensorflow::mutex mu_;
  std::vector<Lane> lanes_ TF_GUARDED_BY(mu_);
  std::vector<tensorflow::DataType> types_ TF_GUARDED_BY(mu_);
  std::vector<tensorflow::TensorShape> shapes_ TF_GUARDED_BY(mu_);
  uint64_t launch_id_ TF_GUARDED_BY(mu_) = 0;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_OUTFEED_H_
