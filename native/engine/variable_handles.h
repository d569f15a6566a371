// How the ops of a program find the variables that it was launched with.
#ifndef TENSORFLOW_IPU_ENGINE_VARIABLE_HANDLES_H_
#define TENSORFLOW_IPU_ENGINE_VARIABLE_HANDLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

// Registers variables with the CPU device for the time of a launch. Reference-counting handles
// would need no registration, but kernels that may create a variable, such as AssignVariableOp, do
// not know them.
//
// A loaded program has one of these. Its launches run one after the other, so variables have the
// same names in all of them, and each handle is made once.
class VariableHandles {
 public:
  explicit VariableHandles(int num_replicas);

  // Registers `variable` (taking over one reference) as the argument `index` of a replica, and
  // returns a handle to it. Its type and shape are the same in each launch.
  tensorflow::Tensor Register(int replica, size_t index, tensorflow::Var* variable,
                              tensorflow::Device* cpu);
  // Ends all registrations of a replica.
  void Clear(int replica, tensorflow::Device* cpu);

 private:
  struct Replica {
    std::string container;
    std::vector<std::string> names;           // by argument
    std::vector<tensorflow::Tensor> handles;  // of no elements until they are made
  };

  std::vector<Replica> replicas_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_VARIABLE_HANDLES_H_
