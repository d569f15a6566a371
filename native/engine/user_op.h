// A custom operation: what a node asks of a user's library, and what the library says of it.
#ifndef TENSORFLOW_IPU_ENGINE_USER_OP_H_
#define TENSORFLOW_IPU_ENGINE_USER_OP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/user_library.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace tensorflow_ipu {

// The op types. They have the same attributes.
extern const char kCpuUserOp[];
extern const char kPrecompiledUserOp[];

struct UserOp {
  bool on_host = false;
  UserLibrary* library = nullptr;
  void* function = nullptr;
  // What the function gets as `attributes`.
  std::string attributes;
  // Of a gradient: how many results the operation has, and which inputs' derivatives are asked
  // for. Its inputs are gradients, results, inputs. 0 and none for the operation itself.
  int num_gradients = 0;
  std::vector<int> gradient_inputs;
  // Of a gradient: whether each of them has a call of its own.
  bool separate_gradients = false;
  // The output that shares memory with each input, or -1.
  std::vector<int32_t> aliased_output;
  std::vector<int> replica_identical;
  bool is_elementwise = false;
  bool is_hashable = false;

  bool is_gradient() const { return num_gradients > 0; }
  // The input of the node that is the operation's first one.
  int first_input() const { return 2 * num_gradients; }
};

// Opens the library that a node names, and checks that it has what the node needs.
tensorflow::Status LoadUserOp(const tensorflow::NodeDef& node, UserOp* op);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_USER_OP_H_
