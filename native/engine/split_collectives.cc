#include "engine/split_collectives.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/factored_sums.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorflow_ipu {

using tensorflow::Edge;
using tensorflow::FunctionDef;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;
using tensorflow::Status;

namespace {

constexpr char kFinish[] = "IpuCollectiveFinish";

// The attribute with the size of the groups, of ops that are split; "" if all replicas are one.
const std::string* GroupAttribute(const std::string& op) {
  static const auto* attributes =
      new std::unordered_map<std::string, std::string>{{"IpuCrossReplicaSum", "replica_group_size"},
                                                       {"IpuReduceScatter", "replication_factor"},
                                                       {"IpuAllGather", "replication_factor"},
                                                       {"IpuReplicaBroadcast", ""}};
  const auto found = attributes->find(op);
  return found == attributes->end() ? nullptr : &found->second;
}

// A group of one needs nobody.
bool IsSplit(const NodeDef& node) {
  const std::string* attribute = GroupAttribute(node.op());
  if (attribute == nullptr) return false;
  const auto group = node.attr().find(*attribute);
  if (group != node.attr().end() && group->second.i() == 1) return false;
  // A slice of a replica's own tensor needs nobody either.
  const auto reduction = node.attr().find("op");
  return reduction == node.attr().end() || reduction->second.s() != "COLLECTIVE_OP_LOCAL";
}

std::string FinishName(const std::string& name) { return absl::StrCat(name, "/finish"); }

NodeDef FinishOf(const NodeDef& node) {
  NodeDef finish;
  finish.set_name(FinishName(node.name()));
  finish.set_op(kFinish);
  finish.set_device(node.device());
  (*finish.mutable_attr())["T"] = node.attr().at("T");
  if (node.has_experimental_debug_info()) {
    *finish.mutable_experimental_debug_info() = node.experimental_debug_info();
  }
  return finish;
}

// Whether replica 0 alone needs the result: in the graph of another one (engine/replica_graphs.h).
bool IsForLeader(const Node& node) {
  bool is_used = false;
  for (const Edge* edge : node.out_edges()) {
    if (edge->IsControlEdge()) continue;
    const std::string& user = edge->dst()->type_string();
    if (user != "IpuHollow" && user != "IpuFollow") return false;
    is_used = true;
  }
  return is_used;
}

NodeDef StartOf(const NodeDef& node, bool takes) {
  NodeDef start = node;
  start.set_op(absl::StrCat(node.op(), "Start"));
  (*start.mutable_attr())["takes"].set_b(takes);
  return start;
}

NodeDef StartOf(const NodeDef& node, const NodeDef& product, bool takes) {
  NodeDef start = StartOf(node, takes);
  start.set_op(absl::StrCat(node.op(), "OfProductStart"));
  for (const char* name : {"transpose_a", "transpose_b"}) {
    (*start.mutable_attr())[name] = product.attr().at(name);
  }
  start.clear_input();  // the edges say it
  return start;
}

// Stands for a result that nobody looks at.
NodeDef HollowOf(const NodeDef& node) {
  NodeDef hollow = FinishOf(node);
  hollow.set_op("IpuHollow");
  auto* attributes = hollow.mutable_attr();
  (*attributes)["output_types"].mutable_list()->add_type(attributes->at("T").type());
  (*attributes)["Tinputs"].mutable_list()->add_type(tensorflow::DT_INT64);
  attributes->erase("T");
  return hollow;
}

// With a `product`, the part is not made.
Status Split(Graph* graph, Node* node, Node* product) {
  const bool takes = !IsForLeader(*node);
  Status status;
  Node* start = graph->AddNode(product == nullptr ? StartOf(node->def(), takes)
                                                  : StartOf(node->def(), product->def(), takes),
                               &status);
  TF_RETURN_IF_ERROR(status);
  Node* finish = graph->AddNode(takes ? FinishOf(node->def()) : HollowOf(node->def()), &status);
  TF_RETURN_IF_ERROR(status);
  for (Node* half : {start, finish}) half->set_assigned_device_name(node->assigned_device_name());
  for (const Node* from : {static_cast<const Node*>(node), static_cast<const Node*>(product)}) {
    if (from == nullptr) continue;
    for (const Edge* edge : from->in_edges()) {
      if (edge->src() == product) continue;
      graph->AddEdge(edge->src(), edge->src_output(), start, edge->dst_input());
    }
  }
  graph->AddEdge(start, 0, finish, 0);
  const std::vector<const Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (const Edge* edge : edges) {
    Node* const user = edge->dst();
    const int input = edge->dst_input();
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(start, user);
    } else {
      graph->RemoveEdge(edge);
      graph->AddEdge(finish, 0, user, input);
    }
  }
  graph->RemoveNode(node);
  if (product != nullptr) graph->RemoveNode(product);
  return tensorflow::OkStatus();
}

// The name of the node that a reference to a result of a function's node is to.
std::string NameOf(const std::string& reference) {
  return reference.substr(0, reference.find(':'));
}

// Splits the collectives of a function. Replicas share none of its values. Returns whether there
// were any.
bool Split(FunctionDef* function) {
  std::vector<NodeDef> finishes;
  std::unordered_set<std::string> split;
  for (NodeDef& node : *function->mutable_node_def()) {
    if (!IsSplit(node)) continue;
    NodeDef finish = FinishOf(node);
    finish.add_input(absl::StrCat(node.name(), ":meeting:0"));
    finishes.push_back(std::move(finish));
    split.insert(node.name());
    node = StartOf(node, /*takes=*/true);
  }
  if (split.empty()) return false;
  // References to control are to other names: of these, `split` has none.
  const auto redirect = [&split](std::string* reference) {
    if (split.count(NameOf(*reference)) == 0) return;
    *reference = absl::StrCat(FinishName(NameOf(*reference)), ":output:0");
  };
  for (NodeDef& node : *function->mutable_node_def()) {
    for (std::string& input : *node.mutable_input()) redirect(&input);
  }
  for (auto& [name, result] : *function->mutable_ret()) redirect(&result);
  // TensorFlow drops ops that no end of a function waits for.
  for (auto& [name, node] : *function->mutable_control_ret()) {
    if (split.count(node) > 0) node = FinishName(node);
  }
  for (NodeDef& finish : finishes) *function->add_node_def() = std::move(finish);
  return true;
}

}  // namespace

Status SplitCollectives(const std::unordered_set<std::string>& factored, Graph* graph) {
  std::vector<Node*> nodes;
  for (Node* node : graph->op_nodes()) {
    if (IsSplit(node->def())) nodes.push_back(node);
  }
  for (Node* node : nodes) {
    Node* const product = factored.count(node->name()) > 0 ? ProductOf(*node) : nullptr;
    TF_RETURN_IF_ERROR(Split(graph, node, product));
  }
  return tensorflow::OkStatus();
}

Status SplitCollectives(tensorflow::FunctionLibraryDefinition* library) {
  for (const std::string& name : library->ListFunctionNames()) {
    FunctionDef function = *library->Find(name);
    if (Split(&function)) TF_RETURN_IF_ERROR(library->ReplaceFunction(name, function));
  }
  return tensorflow::OkStatus();
}

}  // namespace tensorflow_ipu
