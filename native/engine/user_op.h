// A custom operation: what a node asks of a user's library, and what the library says of it.
#ifndef TENSORFLOW_IPU_ENGINE_USER_OP_H_
#define TENSORFLOW_IPU_ENGINE_USER_OP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/user_library.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tensorflow_ipu {

// The op types. They have the same attributes.
extern const char kCpuUserOp[];
extern const char kPrecompiledUserOp[];
// On nodes: stands for the contents of the file of codelets.
extern const char kCodeletsHash[];
// On nodes: their name in the user's program.
extern const char kUserOpName[];

// The IPU that a Poplar program is built for.
struct UserOpTarget {
  std::string chip = "ipu2";
  int tiles = 1472;
  int replicas = 1;
};

struct UserOp {
  std::string name;  // in the program
  bool on_host = false;
  // Whether it is a Poplar program, which the function builds, rather than a function that
  // computes.
  bool on_poplar = false;
  // Null for programs of a kind that Poplar knows by name.
  UserLibrary* library = nullptr;
  std::string symbol, kind;
  std::vector<tensorflow::DataType> input_types, output_types;
  std::vector<tensorflow::TensorShape> output_shapes;  // none of a gradient
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
  // Of Poplar programs: the function that maps inputs, the inputs for which it is called, a file of
  // codelets, the API level, and the target.
  void* allocator = nullptr;
  std::vector<uint8_t> allocates;
  std::string codelets, codelets_hash;  // a file, and what stands for its contents
  int api_level = 0;
  UserOpTarget target;

  bool is_gradient() const { return num_gradients > 0; }
  // The input of the node that is the operation's first one.
  int first_input() const { return 2 * num_gradients; }
  // The shape of an output.
  tensorflow::TensorShape OutputShape(int output,
                                      const std::vector<tensorflow::TensorShape>& inputs) const {
    return is_gradient() ? inputs[first_input() + gradient_inputs[output]] : output_shapes[output];
  }
  // The input whose derivative this call is for, -1 for all.
  int InputGradIndex() const { return separate_gradients ? gradient_inputs[0] : -1; }
  // The operation and its library, for errors.
  std::string Title() const;
};

// Opens the library that a node names, and checks that it has what the node needs.
tensorflow::Status LoadUserOp(const tensorflow::NodeDef& node, UserOp* op);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_USER_OP_H_
