// Which values of a program are equal on all replicas.
#ifndef TENSORFLOW_IPU_ENGINE_UNIFORM_VALUES_H_
#define TENSORFLOW_IPU_ENGINE_UNIFORM_VALUES_H_

#include <set>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// What is known of the nodes of one graph, by their ids.
struct UniformValues {
  // Nodes that compute the same results on all replicas, equally often, and have no other effect.
  std::vector<bool> computed_alike;
  // Nodes that write the same to the same variables of the user, equally often.
  std::vector<bool> written_alike;
  // Nodes with inputs that are variables of the user: the arguments that may be those variables, of
  // aliases the first.
  std::vector<std::set<int>> variables;
  // Arguments that are equal on all replicas at all times, if they are variables.
  std::set<int> uniform_variables;
};

// Finds the values of `graph`, a program's optimized one, that are equal on all of `replicas`
// replicas, of all processes. `aliases` has for each argument the first one that is the same
// variable; -1 minus that if each replica has its own, as it is small: a counter, say, that a loop
// writes in each iteration. Its value may be equal on all. What the analysis does not know is not
// equal: an op with an effect or a function that has some, a resource that is no argument, random
// numbers, feeds.
//
// A program has no uniform values if replicas may come to different collectives: those that wait
// for each other then would be others than without sharing, and the error would be a hang.
tensorflow::Status FindUniformValues(const tensorflow::Graph& graph,
                                     const tensorflow::FunctionLibraryDefinition& library,
                                     int replicas, const std::vector<int>& aliases,
                                     UniformValues* values);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_UNIFORM_VALUES_H_
