#include "engine/replica_graphs.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

// Constants of more elements are held once.
constexpr int64_t kSmallConstant = 256;

bool IsSmallConstant(const Node& node) {
  if (!node.IsConstant()) return false;
  const tensorflow::AttrValue* value = node.attrs().Find("value");
  return value != nullptr &&
         tensorflow::TensorShape(value->tensor().tensor_shape()).num_elements() <= kSmallConstant;
}

bool IsSmallType(DataType type) {
  return type == tensorflow::DT_BOOL || tensorflow::DataTypeIsInteger(type);
}

// Whether a node is what counters and predicates of loops are made of.
bool IsCounting(const Node& node) {
  static const auto* names = new std::unordered_set<std::string>{
      "Add",      "AddV2",    "Sub",        "Mul",        "Less",     "LessEqual", "Greater",
      "Equal",    "NotEqual", "LogicalAnd", "LogicalOr",  "FloorDiv", "FloorMod",  "GreaterEqual",
      "Identity", "Cast",     "Maximum",    "LogicalNot", "Minimum",
  };
  if (names->count(node.type_string()) == 0) return false;
  const auto& inputs = node.input_types();
  const auto& outputs = node.output_types();
  return std::all_of(inputs.begin(), inputs.end(), IsSmallType) &&
         std::all_of(outputs.begin(), outputs.end(), IsSmallType);
}

bool IsDenseRead(const Node& node) {
  return node.type_string() == "ReadVariableOp" || node.type_string() == "VariableShape";
}

bool PassesHandlesOn(const Node& node) {
  return node.IsControlFlow() || node.IsIdentity() || node.IsRetval() || node.IsArg();
}

// Decides what a follower does at each node, by its id.
class Roles {
 public:
  Roles(const Graph& graph, const UniformValues& values) : values_(values) {
    const int count = graph.num_node_ids();
    follows_.resize(count);
    for (const Node* node : graph.op_nodes()) {
      const int id = node->id();
      follows_[id] =
          values.written_alike[id] || (values.computed_alike[id] && !IsSmallConstant(*node));
    }
    FindSparseVariables(graph);
    std::vector<Node*> order;
    tensorflow::GetReversePostOrder(graph, &order);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node* node : order) {
        if (!node->IsOp() || !follows_[node->id()] || !IsBetterDone(*node)) continue;
        follows_[node->id()] = false;
        changed = true;
      }
    }
    FindReadVariables(graph);
  }

  // Whether a follower leaves the node to the leader.
  bool Follows(const Node& node) const { return follows_[node.id()]; }

  // Whether the node is a write that comes between reads of followers.
  bool AwaitsFollowers(const Node& node) const {
    const auto& variables = values_.variables[node.id()];
    return values_.written_alike[node.id()] &&
           std::any_of(variables.begin(), variables.end(),
                       [this](int variable) { return read_.count(variable) > 0; });
  }

  // The outputs that followers use, in their order. Nobody uses the results of a follower.
  std::vector<int> Taken(const Node& node) const {
    std::set<int> outputs;
    for (const Edge* edge : node.out_edges()) {
      const Node& user = *edge->dst();
      if (edge->IsControlEdge() || !user.IsOp() || user.IsRetval() || Follows(user)) continue;
      outputs.insert(edge->src_output());
    }
    return {outputs.begin(), outputs.end()};
  }

 private:
  // Whether a follower does better without the leader.
  bool IsBetterDone(const Node& node) const {
    if (IsDenseRead(node)) return !Taken(node).empty() && !IsSparse(node);
    if (!IsCounting(node)) return false;
    const auto& edges = node.in_edges();
    return std::none_of(edges.begin(), edges.end(), [this](const Edge* edge) {
      return !edge->IsControlEdge() && Follows(*edge->src());
    });
  }

  // A read copies a variable that is read or written by rows.
  void FindSparseVariables(const Graph& graph) {
    for (const Node* node : graph.op_nodes()) {
      const std::string& op = node->type_string();
      if (!absl::StartsWith(op, "ResourceGather") && !absl::StartsWith(op, "ResourceScatter") &&
          !absl::StartsWith(op, "ResourceSparse")) {
        continue;
      }
      const auto& variables = values_.variables[node->id()];
      sparse_.insert(variables.begin(), variables.end());
    }
  }

  bool IsSparse(const Node& node) const {
    const auto& variables = values_.variables[node.id()];
    return std::any_of(variables.begin(), variables.end(),
                       [this](int variable) { return sparse_.count(variable) > 0; });
  }

  // Finds the variables that followers look at.
  void FindReadVariables(const Graph& graph) {
    for (const Node* node : graph.op_nodes()) {
      if (Follows(*node) || PassesHandlesOn(*node)) continue;
      const auto& variables = values_.variables[node->id()];
      read_.insert(variables.begin(), variables.end());
    }
  }

  const UniformValues& values_;
  std::vector<bool> follows_;
  std::set<int> sparse_, read_;
};

std::vector<const Edge*> DataInputs(const Node& node) {
  std::vector<const Edge*> inputs(node.num_inputs());
  for (const Edge* edge : node.in_edges()) {
    if (!edge->IsControlEdge()) inputs[edge->dst_input()] = edge;
  }
  return inputs;
}

// Begins a node on the device of `node`, with the same inputs.
NodeBuilder BuilderLike(const Node& node, const std::string& name, const std::string& op) {
  std::vector<NodeBuilder::NodeOut> inputs;
  for (const Edge* edge : DataInputs(node)) inputs.emplace_back(edge->src(), edge->src_output());
  NodeBuilder builder(name, op);
  builder.Input(inputs);
  for (const Edge* edge : node.in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) builder.ControlInput(edge->src());
  }
  builder.Device(node.requested_device()).AssignedDevice(node.assigned_device_name());
  return builder;
}

Status Publish(const Node& node, const std::vector<int>& outputs, Graph* graph) {
  std::vector<NodeBuilder::NodeOut> inputs;
  for (const int output : outputs) inputs.emplace_back(const_cast<Node*>(&node), output);
  NodeBuilder builder(graph->NewName(node.name() + "/publish"), "IpuPublish");
  builder.Input(inputs).Attr("node", node.id());
  if (inputs.empty()) builder.ControlInput(const_cast<Node*>(&node));
  builder.Device(node.requested_device()).AssignedDevice(node.assigned_device_name());
  return builder.Finalize(graph, nullptr);
}

// All inputs of the write go through the node that waits, so it is dead where the write is.
Status AwaitFollowers(Node* node, Graph* graph) {
  NodeBuilder builder =
      BuilderLike(*node, graph->NewName(node->name() + "/await"), "IpuAwaitFollowers");
  Node* await = nullptr;
  TF_RETURN_IF_ERROR(builder.Attr("node", node->id()).Finalize(graph, &await));
  for (int i = 0; i < node->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(graph->UpdateEdge(await, i, node, i));
  }
  return tensorflow::OkStatus();
}

Status Replace(Node* node, const std::vector<int>& taken, bool writes, Graph* graph) {
  const bool waits = writes || !taken.empty();
  NodeBuilder builder = BuilderLike(*node, node->name(), waits ? "IpuFollow" : "IpuHollow");
  builder.Attr("output_types", node->output_types());
  if (waits) builder.Attr("node", node->id()).Attr("taken", taken).Attr("writes", writes);
  Node* other = nullptr;
  TF_RETURN_IF_ERROR(builder.Finalize(graph, &other));
  const std::vector<const Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (const Edge* edge : edges) {
    Node* user = edge->dst();
    if (!user->IsOp()) continue;
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(other, user);
    } else {
      TF_RETURN_IF_ERROR(graph->UpdateEdge(other, edge->src_output(), user, edge->dst_input()));
    }
  }
  graph->RemoveNode(node);
  return tensorflow::OkStatus();
}

// What a graph is changed by has to be known before it changes.
struct Change {
  Node* node;
  std::vector<int> taken;
  bool awaits;
};

std::vector<Change> Changes(const UniformValues& values, const Graph& graph) {
  const Roles roles(graph, values);
  std::vector<Change> changes;
  for (Node* node : graph.op_nodes()) {
    if (!roles.Follows(*node)) continue;
    changes.push_back({node, roles.Taken(*node), roles.AwaitsFollowers(*node)});
  }
  return changes;
}

}  // namespace

Status MakeLeader(const UniformValues& values, Graph* graph) {
  for (const Change& change : Changes(values, *graph)) {
    if (change.awaits) TF_RETURN_IF_ERROR(AwaitFollowers(change.node, graph));
    if (change.awaits || !change.taken.empty()) {
      TF_RETURN_IF_ERROR(Publish(*change.node, change.taken, graph));
    }
  }
  tensorflow::FixupSourceAndSinkEdges(graph);
  return tensorflow::OkStatus();
}

Status MakeFollower(const UniformValues& values, Graph* graph) {
  for (const Change& change : Changes(values, *graph)) {
    TF_RETURN_IF_ERROR(Replace(change.node, change.taken, change.awaits, graph));
  }
  tensorflow::FixupSourceAndSinkEdges(graph);
  return tensorflow::OkStatus();
}

}  // namespace tensorflow_ipu
