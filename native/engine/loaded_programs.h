// The programs that kernels have made runnable, and how long they stay so.
#ifndef TENSORFLOW_IPU_ENGINE_LOADED_PROGRAMS_H_
#define TENSORFLOW_IPU_ENGINE_LOADED_PROGRAMS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/launch.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

class KernelPrograms;

// The programs of one kernel, for each Cluster and each form of its arguments. They go with the
// kernel, with a new configuration and, where a kernel lives for ever, with their Cluster. A launch
// keeps its own until it has ended. Thread-safe.
class LoadedPrograms {
 public:
  using Loaded = std::shared_ptr<const LoadedProgram>;
  using Load = std::function<tensorflow::Status(LoadedProgram*)>;

  // With `go_with_cluster`, Forget drops programs of this kernel.
  explicit LoadedPrograms(bool go_with_cluster);
  // What the programs run in, the function runtime, must still be there.
  ~LoadedPrograms();
  LoadedPrograms(const LoadedPrograms&) = delete;
  LoadedPrograms& operator=(const LoadedPrograms&) = delete;

  // Gives the program of `cluster` for arguments that `signature` describes. The first time, and
  // after a new configuration, it comes from `load`.
  tensorflow::Status Get(const std::string& cluster, const std::string& signature, const Load& load,
                         Loaded* program);

  // Drops the programs of a Cluster, in all kernels that have them go with it.
  static void Forget(const std::string& cluster);
  // Drops all programs of all kernels.
  static void ForgetAll();
  // How many programs are loaded in this process.
  static int64_t count();

 private:
  const std::shared_ptr<KernelPrograms> programs_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_LOADED_PROGRAMS_H_
