#include "engine/kernel_state.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tensorflow_ipu {

using tensorflow::FunctionLibraryDefinition;
using tensorflow::Graph;
using tensorflow::NodeDef;

namespace {

// Beginnings of the names of stateful ops whose state is elsewhere: in a variable or another
// resource, in the launch, or in the functions that they run.
constexpr const char* kStateElsewhere[] = {"Ipu",
                                           "Resource",
                                           "Assign",
                                           "AssignVariable",
                                           "ReadVariable",
                                           "VarHandleOp",
                                           "VarIsInit",
                                           "VariableShape",
                                           "DestroyResource",
                                           "TensorArray",
                                           "Stack",
                                           "PartitionedCall",
                                           "StatefulPartitionedCall",
                                           "While",
                                           "If",
                                           "Case",
                                           "Assert",
                                           "Print",
                                           "_Arg",
                                           "_Retval",
                                           "_Send",
                                           "_Recv",
                                           "Placeholder",
                                           "PyFunc",
                                           "EagerPyFunc"};

bool MayKeepState(const std::string& op) {
  const tensorflow::OpDef* definition = nullptr;
  // The name of a function, which is looked at itself.
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(op, &definition).ok()) return false;
  if (!definition->is_stateful()) return false;
  return std::none_of(std::begin(kStateElsewhere), std::end(kStateElsewhere),
                      [&op](const char* prefix) { return absl::StartsWith(op, prefix); });
}

}  // namespace

bool MayKeepStateInKernels(const Graph& graph, const FunctionLibraryDefinition& library) {
  for (const tensorflow::Node* node : graph.op_nodes()) {
    if (MayKeepState(node->type_string())) return true;
  }
  tensorflow::GraphDef def;
  graph.ToGraphDef(&def);
  const FunctionLibraryDefinition reachable = library.ReachableDefinitions(def);
  for (const std::string& name : reachable.ListFunctionNames()) {
    for (const NodeDef& node : reachable.Find(name)->node_def()) {
      if (MayKeepState(node.op())) return true;
    }
  }
  return false;
}

}  // namespace tensorflow_ipu
