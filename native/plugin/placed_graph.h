// Which nodes of a placed graph belong together in programs for IPUs.
#ifndef TENSORFLOW_IPU_PLUGIN_PLACED_GRAPH_H_
#define TENSORFLOW_IPU_PLUGIN_PLACED_GRAPH_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorflow_ipu {

// Nodes that become one program.
struct PlacedGroup {
  std::string device;  // full name of the IPU device that they are on
  std::vector<tensorflow::Node*> nodes;
};

// Whether a node was placed on an IPU.
bool IsOnIpu(const tensorflow::Node& node);

// Whether a node is a small constant that every program which uses it can have for itself.
bool IsSharedConstant(const tensorflow::Node& node);

// Finds the groups: connected nodes on one IPU that programs can have. No path leads out of a group
// and back into it, so each can run as one op. Left alone are nodes that the host runs as well:
// those inside loops of TensorFlow 1, whose iterations its executor manages, and groups that
// compute nothing.
std::vector<PlacedGroup> FindPlacedGroups(const tensorflow::Graph& graph,
                                          const tensorflow::FunctionLibraryDefinition& library);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_PLUGIN_PLACED_GRAPH_H_
