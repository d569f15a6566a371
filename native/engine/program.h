// Programs as the Python compiler delivers them.
#ifndef TENSORFLOW_IPU_ENGINE_PROGRAM_H_
#define TENSORFLOW_IPU_ENGINE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// What is known of one argument when a cluster is compiled.
struct Argument {
  tensorflow::DataType dtype;
  tensorflow::TensorShape shape;
  bool is_variable;
};

// An Executable as far as the engine needs it.
struct Program {
  std::string id;
  std::string entry;  // the function in `library` to run
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> library;
  int replicas = 1;   // in this process
  int instances = 1;  // processes that run it together
  int instance = 0;   // which of them this is
  // Equal in instances that run the same program; empty if it has no collectives between them.
  std::string fingerprint;
  // False for programs that the host evaluates: they leave no trace events.
  bool on_device = true;
};

// One call of the Python compiler: the question, and room for the answer.
struct CompileRequest {
  std::string cluster;
  int ordinal;
  std::vector<Argument> arguments;

  tensorflow::Status status = tensorflow::errors::Internal("The compiler gave no answer.");
  std::shared_ptr<Program> program;
};

// Takes a CompileRequest*; fills in the answer.
using CompileCallback = void (*)(void* request);

// Sets the compiler. Called once, when the Python runtime is imported.
void SetCompiler(CompileCallback callback);

// Whether there is a compiler.
bool HasCompiler();

// Lets no compilation begin any more, and waits until none is in Python, but not longer than
// `microseconds`. For the end of the interpreter.
void EndCompiler(int64_t microseconds);

// Compiles `cluster` for device `ordinal` and these arguments.
tensorflow::Status Compile(const std::string& cluster, int ordinal, std::vector<Argument> arguments,
                           std::shared_ptr<Program>* program);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_PROGRAM_H_
