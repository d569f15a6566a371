// Ops of the libraries (popops, poplin, ...): steps of a program that run as one kernel each.
#ifndef poplar_core_LibraryOp_hpp
#define poplar_core_LibraryOp_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace poplar {
namespace core {

/// A tensor that a kernel reads or writes: its elements are contiguous, in row-major order.
struct KernelTensor {
  Type type;
  std::vector<std::size_t> shape;
};

/// What a kernel is made of. All of it can be written into a file.
struct KernelSpec {
  /// Of the library and the op: "popops::map".
  std::string name;
  /// Attributes in a form that the kernel reads.
  std::string parameters;
  std::vector<KernelTensor> inputs, outputs;
};

/// Computes an op. An engine makes one for each step and replica when it is loaded.
class Kernel {
 public:
  virtual ~Kernel() {}
  /// Outputs have the values that they had before the op.
  virtual void run(const std::vector<const void *> &inputs, const std::vector<void *> &outputs) = 0;
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelSpec &)>;

/// Makes a kernel known by its name: a static object of the library that has it.
struct KernelRegistration {
  KernelRegistration(const std::string &name, KernelFactory factory);
};

/// Computes an op of all replicas at once. An engine makes one for each step.
class CollectiveKernel {
 public:
  virtual ~CollectiveKernel() {}
  /// Gets the tensors of replica r at index r. An output may be the tensor of an input.
  virtual void run(const std::vector<std::vector<const void *>> &inputs,
                   const std::vector<std::vector<void *>> &outputs) = 0;
};

using CollectiveFactory = std::function<std::unique_ptr<CollectiveKernel>(const KernelSpec &)>;

/// Makes a kernel of all replicas known by its name.
struct CollectiveRegistration {
  CollectiveRegistration(const std::string &name, CollectiveFactory factory);
};

/// Whether outputs may share memory with inputs.
enum class KernelAliasing {
  /// The kernel reads an element of an input before it writes the same element of an output, so
  /// that both may be one tensor.
  SameTensor,
  /// Inputs that are written are copied before.
  None
};

/// A step that runs the kernel of `name`. Checks no shapes: callers do.
///
/// Tensors that are not contiguous are copied to buffers before, and outputs back afterwards.
program::Program libraryOp(Graph &graph, const std::string &name, const std::string &parameters,
                           const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
                           const DebugContext &debugContext,
                           KernelAliasing aliasing = KernelAliasing::None);

/// Makes the step of a library's op a part of a compute set: it runs when the set is executed.
void addToComputeSet(Graph &graph, ComputeSet computeSet, const program::Program &op);

/// A step in which all replicas meet. Without replication, there is one.
program::Program collectiveOp(Graph &graph, const std::string &name, const std::string &parameters,
                              const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
                              const DebugContext &debugContext);

/// Calls `work(begin, end)` for parts of [0, count) on all cores, and waits. Up to `grain` elements
/// are one part. An exception of a part is thrown again.
void parallelFor(std::size_t count, std::size_t grain,
                 const std::function<void(std::size_t, std::size_t)> &work);

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_LibraryOp_hpp
