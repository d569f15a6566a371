#include "plugin/placed_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "kernels/support.h"
#include "plugin/device.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;

// What the host does for a session: it makes and initializes variables, and starts programs.
bool IsHostWork(const std::string& op) {
  static const auto* ops = new std::unordered_set<std::string>{
      "Assert",        "AssignVariableOp", "DestroyResourceOp",  "Placeholder",
      "PlaceholderV2", "VarHandleOp",      "VarIsInitializedOp", "_VarHandlesOp"};
  return ops->count(op) > 0 || IsOwnHostOp(op);
}

// Of resources, programs have variables. TensorFlow notes the types of those that a function takes.
bool IsVariable(const Node& handle) {
  return handle.type_string() == "VarHandleOp" ||
         (handle.IsArg() && handle.attrs().Find("_handle_dtypes") != nullptr);
}

// Passes values on. A program of nothing else would only cost time.
bool IsPassive(const std::string& op) {
  static const auto* ops = new std::unordered_set<std::string>{
      "Const", "Identity", "IdentityN", "ReadVariableOp", "StopGradient", "PlaceholderWithDefault"};
  return ops->count(op) > 0;
}

bool IsProgramType(DataType type) {
  return !tensorflow::IsRefType(type) && type != tensorflow::DT_STRING &&
         type != tensorflow::DT_RESOURCE;
}

// Whether programs can have an op and all that it calls.
bool CanBeInProgram(const NodeDef& node, const FunctionLibraryDefinition& library) {
  std::set<std::string> seen;
  std::vector<const NodeDef*> pending = {&node};
  while (!pending.empty()) {
    const NodeDef* next = pending.back();
    pending.pop_back();
    if (IsHostWork(next->op())) return false;
    std::vector<std::string> called = {next->op()};
    for (const auto& attr : next->attr()) {
      if (attr.second.has_func()) called.push_back(attr.second.func().name());
      for (const auto& function : attr.second.list().func()) called.push_back(function.name());
    }
    for (const std::string& name : called) {
      const tensorflow::FunctionDef* function = library.Find(name);
      if (function == nullptr || !seen.insert(name).second) continue;
      for (const NodeDef& inner : function->node_def()) pending.push_back(&inner);
    }
  }
  return true;
}

bool HasProgramTypes(const Node& node) {
  for (DataType type : node.output_types()) {
    if (!IsProgramType(type)) return false;
  }
  for (const Edge* edge : node.in_edges()) {
    if (edge->IsControlEdge()) continue;
    const Node& source = *edge->src();
    const DataType type = source.output_type(edge->src_output());
    const bool variable = type == tensorflow::DT_RESOURCE && IsVariable(source);
    if (!IsProgramType(type) && !variable) return false;
  }
  return true;
}

// The nodes of a graph with what decides on their groups.
class Grouping {
 public:
  Grouping(const Graph& graph, const FunctionLibraryDefinition& library)
      : graph_(graph),
        colours_(graph.num_node_ids(), kHost),
        depths_(graph.num_node_ids(), 0),
        parents_(graph.num_node_ids()) {
    Colour(library);
    if (devices_.empty()) return;
    tensorflow::GetReversePostOrder(graph_, &order_);
    LeaveInitialValues();
    do {
      Measure();
      Connect();
    } while (LeaveOutVariants());
  }

  std::vector<PlacedGroup> Groups() {
    std::map<int, PlacedGroup> groups;
    std::set<int> active;
    for (Node* node : graph_.op_nodes()) {
      if (colours_[node->id()] < 0) continue;
      const int root = Root(node->id());
      groups[root].device = node->assigned_device_name();
      groups[root].nodes.push_back(node);
      if (!IsPassive(node->type_string())) active.insert(root);
    }
    std::vector<PlacedGroup> found;
    for (auto& group : groups) {
      if (active.count(group.first) > 0) found.push_back(std::move(group.second));
    }
    return found;
  }

 private:
  // A node of the host; one that every group can have. Others have the number of their device.
  static constexpr int kHost = -1;
  static constexpr int kShared = -2;

  void Colour(const FunctionLibraryDefinition& library) {
    std::vector<tensorflow::ControlFlowInfo> loops;
    // Graphs that TensorFlow itself will refuse.
    if (!tensorflow::BuildControlFlowInfo(&graph_, &loops).ok()) return;
    for (const Node* node : graph_.op_nodes()) {
      if (IsSharedConstant(*node)) {
        colours_[node->id()] = kShared;
      } else if (IsOnIpu(*node) && loops[node->id()].frame_name.empty() && !node->IsArg() &&
                 !node->IsRetval() && !node->IsControlFlow() && !node->IsSend() &&
                 !node->IsRecv() && node->type_string() != "NoOp" &&
                 !IsHostWork(node->type_string()) && HasProgramTypes(*node) &&
                 CanBeInProgram(node->def(), library)) {
        const auto device = devices_.emplace(node->assigned_device_name(), devices_.size()).first;
        colours_[node->id()] = device->second;
      }
    }
  }

  // Leaves to the host what computes the first values of variables, with the seeds of TensorFlow:
  // all that depends on nothing and is for assignments only.
  void LeaveInitialValues() {
    std::vector<bool> depends(graph_.num_node_ids(), false);
    for (const Node* node : order_) depends[node->id()] = DependsOnOthers(*node, depends);
    std::vector<bool> assigned(graph_.num_node_ids(), false);
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      assigned[(*node)->id()] = IsForAssignments(**node, assigned);
    }
    for (const Node* node : order_) {
      if (assigned[node->id()] && !depends[node->id()]) colours_[node->id()] = kHost;
    }
  }

  bool DependsOnOthers(const Node& node, const std::vector<bool>& depends) const {
    if (node.IsSource() || colours_[node.id()] == kShared) return false;
    if (colours_[node.id()] == kHost) return true;
    for (const Edge* edge : node.in_edges()) {
      if (depends[edge->src()->id()]) return true;
    }
    return false;
  }

  static bool IsForAssignments(const Node& node, const std::vector<bool>& assigned) {
    bool used = false;
    for (const Edge* edge : node.out_edges()) {
      const Node& user = *edge->dst();
      if (user.IsSink()) continue;
      const bool assignment = user.type_string() == "AssignVariableOp" && !edge->IsControlEdge();
      if (!assignment && !assigned[user.id()]) return false;
      used = true;
    }
    return used;
  }

  // The depth of a node is how often the longest path to it changes between devices, so nodes of
  // one device with equal depth can run as one op. Around a loop no path changes devices: this
  // ends.
  void Measure() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node* node : order_) changed = Deepen(*node) || changed;
    }
  }

  bool Deepen(const Node& node) {
    int depth = colours_[node.id()] >= 0 ? 1 : 0;
    for (const Edge* edge : node.in_edges()) {
      const int source = edge->src()->id();
      if (colours_[source] == kShared) continue;
      depth = std::max(depth, depths_[source] + (colours_[source] != colours_[node.id()] ? 1 : 0));
    }
    const bool changed = depth != depths_[node.id()];
    depths_[node.id()] = depth;
    return changed;
  }

  void Connect() {
    std::iota(parents_.begin(), parents_.end(), 0);
    for (const Edge* edge : graph_.edges()) {
      const int source = edge->src()->id();
      const int target = edge->dst()->id();
      if (colours_[source] >= 0 && colours_[source] == colours_[target] &&
          depths_[source] == depths_[target]) {
        parents_[Root(source)] = Root(target);
      }
    }
  }

  // Programs have variants inside only, such as the lists of a loop for its gradient. Gives nodes
  // that exchange them with others to the host. Returns whether there were any.
  bool LeaveOutVariants() {
    bool found = false;
    for (const Edge* edge : graph_.edges()) {
      if (edge->IsControlEdge()) continue;
      const int source = edge->src()->id();
      const int target = edge->dst()->id();
      const bool variant = tensorflow::BaseType(edge->src()->output_type(edge->src_output())) ==
                           tensorflow::DT_VARIANT;
      if (!variant || (colours_[source] < 0 && colours_[target] < 0)) continue;
      if (colours_[source] == colours_[target] && Root(source) == Root(target)) continue;
      colours_[source] = colours_[target] = kHost;
      found = true;
    }
    return found;
  }

  int Root(int id) {
    while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
    return id;
  }

  const Graph& graph_;
  std::vector<Node*> order_;  // from the source; loops aside, after all that a node depends on
  std::map<std::string, int> devices_;
  std::vector<int> colours_;
  std::vector<int> depths_;
  std::vector<int> parents_;  // of the nodes that are connected, as trees
};

}  // namespace

bool IsOnIpu(const Node& node) {
  tensorflow::DeviceNameUtils::ParsedName name;
  return !node.assigned_device_name().empty() &&
         tensorflow::DeviceNameUtils::ParseFullName(node.assigned_device_name(), &name) &&
         name.has_type && name.type == kIpuDeviceType;
}

bool IsSharedConstant(const Node& node) {
  if (!node.IsConstant() || node.output_type(0) == tensorflow::DT_STRING) return false;
  for (const Edge* edge : node.in_edges()) {
    if (!edge->src()->IsSource()) return false;
  }
  return true;
}

std::vector<PlacedGroup> FindPlacedGroups(const Graph& graph,
                                          const FunctionLibraryDefinition& library) {
  for (const Node* node : graph.op_nodes()) {
    if (IsOnIpu(*node) && !IsHostWork(node->type_string())) {
      return Grouping(graph, library).Groups();
    }
  }
  return {};
}

}  // namespace tensorflow_ipu
