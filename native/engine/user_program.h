// A custom operation that is a Poplar program, compiled for the shapes of its tensors.
#ifndef TENSORFLOW_IPU_ENGINE_USER_PROGRAM_H_
#define TENSORFLOW_IPU_ENGINE_USER_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/poplar_sdk.h"
#include "engine/user_op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

class UserProgram {
 public:
  using Shapes = std::vector<tensorflow::TensorShape>;
  // Of each replica that runs.
  using Tensors = absl::Span<const std::vector<tensorflow::Tensor>>;

  // Returns the program of an operation for inputs of these shapes. It is built once in a process:
  // the compiler asks for it, then each kernel.
  static tensorflow::Status Get(const UserOp& op, const Shapes& inputs,
                                std::shared_ptr<const UserProgram>* program);
  ~UserProgram();

  const Shapes& inputs() const { return inputs_; }
  // The output that shares memory with each input, or -1.
  const std::vector<int32_t>& aliased_output() const { return aliased_output_; }

  // Its memory by tile and cycles, as poplar_embedding_describe has them.
  std::string Describe() const;

  // Whether a program of an operation has been built, for any shapes, in which replicas exchange
  // data.
  static bool HasExchange(const UserOp& op);

  // The variables of the program, on one replica or on all.
  class State {
   public:
    ~State();
    // Runs the program with the tensors of each replica. Outputs are allocated; one that shares
    // memory with an input is that.
    tensorflow::Status Run(Tensors inputs, Tensors outputs);

   private:
    friend class UserProgram;
    State(const UserProgram* program, poplar_embedding_instance* instance)
        : program_(program), instance_(instance) {}

    const UserProgram* const program_;
    poplar_embedding_instance* const instance_;
  };

  static constexpr int kAllReplicas = -1;
  tensorflow::Status MakeState(int replica, std::unique_ptr<State>* state) const;

 private:
  UserProgram(std::string title, Shapes inputs)
      : title_(std::move(title)), inputs_(std::move(inputs)) {}
  static tensorflow::Status Build(const UserOp& op, const Shapes& inputs,
                                  std::shared_ptr<const UserProgram>* program);
  // The status of an error of Poplar, which is freed.
  tensorflow::Status Failed(const char* what, char* error) const;

  const std::string title_;  // in errors
  const Shapes inputs_;
  std::vector<int32_t> aliased_output_;
  const PoplarSdk* sdk_ = nullptr;
  poplar_embedding* embedding_ = nullptr;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_USER_PROGRAM_H_
