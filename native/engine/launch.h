// One run of a program by all its replicas.
#ifndef TENSORFLOW_IPU_ENGINE_LAUNCH_H_
#define TENSORFLOW_IPU_ENGINE_LAUNCH_H_

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "engine/events.h"
#include "engine/program.h"
#include "engine/running_launches.h"
#include "engine/variable_handles.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tensorflow_ipu {

// A program made runnable on one device in one function runtime (one session, or the eager
// context).
struct LoadedProgram {
  std::shared_ptr<const Program> program;
  tensorflow::FunctionLibraryRuntime* runtime;
  // Replicas that run at the same time (engine/turns.h), or 0 if all do.
  int lanes;
  // One instance for each lane, and if it shares one for replica 0; or one for each replica. Some
  // of TensorFlow's kernels, such as a convolution fused with the addition after it, keep state in
  // the kernel during `Compute`. So no two replicas that run at the same time have the same
  // kernels; nor have any, where kernels may keep state for longer.
  std::vector<tensorflow::FunctionLibraryRuntime::Handle> functions;
  // Whether copies of a variable that are equal on several replicas share a buffer.
  bool shares_copies = false;
  // Whether replica 0 computes for all of them what is equal on all.
  bool shares = false;
  // Arguments that are variables which all replicas have one of.
  std::set<int> shared_variables;
  // Without the bytes of variables.
  UniformStatistics uniform;
  // Of the variables that a launch is given.
  std::shared_ptr<VariableHandles> handles;
  // What `runtime` is part of, if the program has one of its own.
  std::shared_ptr<const void> owned;

  // The instance that a replica runs.
  tensorflow::FunctionLibraryRuntime::Handle FunctionOf(size_t replica) const;
};

// Instantiates `program` for device `ordinal` on the host's CPU device. TensorFlow's graph
// optimizers run once for all instances. `aliases` has for each argument the first
// one that is the same variable, or itself.
tensorflow::Status LoadProgram(std::shared_ptr<const Program> program, int ordinal,
                               const std::vector<int>& aliases, size_t num_outputs,
                               tensorflow::FunctionLibraryRuntime* runtime, LoadedProgram* loaded);

// The same in a runtime of its own, for those who may outlive `runtime`.
tensorflow::Status LoadProgramInClone(std::shared_ptr<const Program> program, int ordinal,
                                      const std::vector<int>& aliases, size_t num_outputs,
                                      tensorflow::FunctionLibraryRuntime* runtime,
                                      LoadedProgram* loaded);

// Gives back what LoadProgram made. The program must not run any more.
void UnloadProgram(const LoadedProgram& loaded);

// The inputs of a launch, by argument position: a tensor, or the variable it names.
struct LaunchArgument {
  tensorflow::Tensor tensor;
  tensorflow::core::RefCountPtr<tensorflow::Var> variable;
};

// The first of the arguments that is the same variable, for each of them; itself for a tensor. Of a
// variable that is too small to be shared, -1 minus that.
std::vector<int> FindAliases(const std::vector<LaunchArgument>& arguments);

// What a launch uses of whoever asks for it. Has to outlive it.
struct LaunchCaller {
  std::function<void(std::function<void()>)>* runner;
  tensorflow::CancellationManager* cancellation;  // may be null
};

// Runs every replica concurrently on the runner of `caller` and calls `done` once, with the results
// of replica 0 or the first error that is a cause (not a consequence of another replica's).
// Returns the number by which RunningLaunches knows the launch while it runs.
uint64_t Launch(std::shared_ptr<const LoadedProgram> loaded, int ordinal, Waiter waiter,
                const LaunchCaller& caller, std::vector<LaunchArgument> arguments,
                std::function<void(tensorflow::Status, std::vector<tensorflow::Tensor>)> done);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_LAUNCH_H_
