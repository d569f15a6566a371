// What the variables of the replicas hold between two launches of one program.
#ifndef TENSORFLOW_IPU_ENGINE_RESIDENT_VARIABLES_H_
#define TENSORFLOW_IPU_ENGINE_RESIDENT_VARIABLES_H_

#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/refcount.h"

namespace tensorflow_ipu {

// The variables of replica 1, 2 and so on that stand for one variable of the user, who has that of
// replica 0. Null for a replica whose variable has the value of replica 0's.
using ReplicaVariables = std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>>;

// The memory of one device: it holds the variables of replicas while their program stays loaded and
// the user does not write them.
//
// A write by the user is seen by the buffer of the variable. This has a reference to the buffer
// which replica 0 left behind, so TensorFlow gives the variable another one: an assignment always
// does, an update copies a buffer that has other owners. The one write that is not seen is
// assigning a variable what was read from itself since the launch.
//
// The user's variables are not kept alive: what belongs to one goes when it goes.
class ResidentVariables {
 public:
  // Hands out what was kept for `variable`, and so gives back the reference to its buffer. Empty if
  // nothing was kept, or the user has written the variable since.
  ReplicaVariables Take(tensorflow::Var* variable);
  // Keeps what replicas have in a variable after a launch, unless they all have the same. Any read
  // or write of the variable by the launch must have ended.
  void Keep(tensorflow::Var* variable, ReplicaVariables replicas);
  // Forgets everything.
  void Clear();

 private:
  struct Kept {
    tensorflow::Tensor value;  // of replica 0
    ReplicaVariables replicas;
    tensorflow::core::WeakPtr<tensorflow::Var> watch;  // calls Forget
  };

  void Forget(tensorflow::Var* variable);

  tensorflow::mutex mu_;
  std::unordered_map<tensorflow::Var*, Kept> kept_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_RESIDENT_VARIABLES_H_
