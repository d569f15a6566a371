// Splits collectives into a part that gives and a part that takes.
#ifndef TENSORFLOW_IPU_ENGINE_SPLIT_COLLECTIVES_H_
#define TENSORFLOW_IPU_ENGINE_SPLIT_COLLECTIVES_H_

#include <string>
#include <unordered_set>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Replaces collectives whose result can be made as the parts of replicas come by two ops each. The
// first, `...Start`, has its name, inputs and place in the order of collectives: the replica gives
// its part and goes on. The second, `IpuCollectiveFinish`, has its result. So a replica comes to
// the end of its backward pass without the others. Ops that come after the collective by a control
// edge come after the first: they can tell no difference, as a collective has no effect but its
// result.
//
// A sum that `factored` names gets the factors of its part, a product, which is not made
// (engine/factored_sums.h).
//
// For graphs that are optimized: no graph optimizer knows these ops. Collectives with other
// processes cannot be split.
tensorflow::Status SplitCollectives(const std::unordered_set<std::string>& factored,
                                    tensorflow::Graph* graph);
tensorflow::Status SplitCollectives(tensorflow::FunctionLibraryDefinition* library);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_SPLIT_COLLECTIVES_H_
