// Which programs have state in the kernels of TensorFlow, from one run of an op to the next.
#ifndef TENSORFLOW_IPU_ENGINE_KERNEL_STATE_H_
#define TENSORFLOW_IPU_ENGINE_KERNEL_STATE_H_

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorflow_ipu {

// Returns whether a graph, or a function that it runs, may have a kernel that keeps state in
// itself: samplers of candidates go on with their own generator, say, and an op of a user may keep
// anything. Replicas that take turns can share the kernels of other programs.
bool MayKeepStateInKernels(const tensorflow::Graph& graph,
                           const tensorflow::FunctionLibraryDefinition& library);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_KERNEL_STATE_H_
