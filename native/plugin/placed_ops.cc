// Makes programs of the ops that a graph places on an IPU without ipu_compiler.compile: of each
// group of neighbours, a launch op.
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/placed_clusters.h"
#include "engine/program.h"
#include "plugin/placed_graph.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::FunctionDef;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

// Grappler computes constants in advance, as the host would, except for nodes with an attribute
// that has this in its name. On the IPU, rounding may be stochastic.
constexpr char kKeepAttribute[] = "_tpu_and_ipu_keep";

// Notes on a node that mean nothing in a program, or name nodes outside of it. With those of
// `ipu_scope`, XLA's compiler for CPUs would take the node.
constexpr const char* kOuterAttributes[] = {kKeepAttribute,   "_class",
                                            "_output_shapes", "_XlaCompile",
                                            "_XlaScope",      "_XlaSeparateCompiledGradients"};

// Whether a graph is of one op, which TensorFlow wraps into a function to run it eagerly.
bool IsEagerOp(const GraphOptimizationPassOptions& options) {
  return options.function_def != nullptr &&
         options.function_def->signature().name().rfind("__wrapped__", 0) == 0;
}

// Runs between placement and Grappler.
class KeepPlacedOps : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || IsEagerOp(options)) return tensorflow::OkStatus();
    for (Node* node : (*options.graph)->op_nodes()) {
      if (IsOnIpu(*node)) node->AddAttr(kKeepAttribute, true);
    }
    return tensorflow::OkStatus();
  }
};

// An output of a node.
using Port = std::pair<Node*, int>;

// Fit for the names of TensorFlow's functions.
std::string Label(const std::string& name) {
  std::string label = name;
  for (char& c : label) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return label;
}

// Takes one group out of a graph.
class Extraction {
 public:
  Extraction(Graph* graph, const tensorflow::FunctionLibraryDefinition* library, PlacedGroup group)
      : outer_(graph), library_(*library), group_(std::move(group)), body_(*library) {}

  Status Run() {
    for (Node* node : group_.nodes) Copy(node);
    for (Node* node : group_.nodes) TF_RETURN_IF_ERROR(ConnectInputs(node));
    for (Node* node : group_.nodes) TF_RETURN_IF_ERROR(ConnectOutputs(node));
    std::string cluster;
    TF_RETURN_IF_ERROR(Register(&cluster));
    TF_RETURN_IF_ERROR(ReplaceByLaunch(cluster));
    return tensorflow::OkStatus();
  }

 private:
  Node* Copy(Node* node) {
    Node* copy = body_.CopyNode(node);
    copy->set_assigned_device_name("");
    copy->set_requested_device("");
    copies_[node] = copy;
    return copy;
  }

  Status ConnectInputs(Node* node) {
    for (const Edge* edge : node->in_edges()) {
      Node* source = edge->src();
      if (source->IsSource()) continue;
      if (copies_.count(source) == 0) {
        if (edge->IsControlEdge()) {
          before_.push_back(source);
          continue;
        }
        if (!IsSharedConstant(*source)) {
          TF_RETURN_IF_ERROR(AddArgument({source, edge->src_output()}));
          body_.AddEdge(arguments_.at({source, edge->src_output()}), 0, copies_[node],
                        edge->dst_input());
          continue;
        }
        Copy(source);
      }
      body_.AddEdge(copies_[source], edge->src_output(), copies_[node], edge->dst_input());
    }
    return tensorflow::OkStatus();
  }

  Status AddArgument(const Port& port) {
    if (arguments_.count(port) > 0) return tensorflow::OkStatus();
    const DataType type = port.first->output_type(port.second);
    NodeBuilder builder(body_.NewName(port.first->name()), "_Arg");
    builder.Attr("T", type).Attr("index", static_cast<int>(inputs_.size()));
    if (type == tensorflow::DT_RESOURCE) builder.Attr("_ipu_variable", port.first->name());
    TF_RETURN_IF_ERROR(builder.Finalize(&body_, &arguments_[port]));
    inputs_.push_back(port);
    return tensorflow::OkStatus();
  }

  Status ConnectOutputs(Node* node) {
    bool used_inside = false;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst()->IsSink()) continue;
      if (InGroup(edge->dst())) {
        used_inside = true;
      } else if (edge->IsControlEdge()) {
        after_.push_back(edge->dst());
        must_run_.insert(copies_[node]);
      } else {
        TF_RETURN_IF_ERROR(AddResult({node, edge->src_output()}));
        used_inside = true;
      }
    }
    if (!used_inside || node->op_def().is_stateful()) must_run_.insert(copies_[node]);
    return tensorflow::OkStatus();
  }

  bool InGroup(Node* node) const {
    const auto copy = copies_.find(node);
    return copy != copies_.end() && !IsSharedConstant(*node);
  }

  Status AddResult(const Port& port) {
    if (results_.count(port) > 0) return tensorflow::OkStatus();
    const int index = static_cast<int>(outputs_.size());
    results_[port] = index;
    outputs_.push_back(port);
    Node* result;
    return NodeBuilder(body_.NewName("result"), "_Retval")
        .Input(copies_[port.first], port.second)
        .Attr("index", index)
        .Finalize(&body_, &result);
  }

  Status Register(std::string* cluster) {
    FunctionDef function;
    TF_RETURN_IF_ERROR(tensorflow::GraphToFunctionDef(
        body_, "__ipu_placed",
        [this](const Node* node) -> absl::optional<std::string> {
          if (must_run_.count(node) == 0) return absl::nullopt;
          return node->name();
        },
        &function));
    tensorflow::FunctionDefLibrary functions;
    *functions.add_function() = function;
    const auto called = library_.ReachableDefinitions(function);
    for (const std::string& name : called.ListFunctionNames()) {
      *functions.add_function() = *called.Find(name);
    }
    for (FunctionDef& definition : *functions.mutable_function()) {
      for (tensorflow::NodeDef& node : *definition.mutable_node_def()) {
        for (const char* attribute : kOuterAttributes) node.mutable_attr()->erase(attribute);
      }
    }
    *cluster = PlacedClusters::Add(std::move(functions), Label(group_.nodes.back()->name()));
    return tensorflow::OkStatus();
  }

  Status ReplaceByLaunch(const std::string& cluster) {
    std::vector<tensorflow::NodeBuilder::NodeOut> arguments;
    for (const Port& port : inputs_) arguments.emplace_back(port.first, port.second);
    std::vector<DataType> types;
    for (const Port& port : outputs_) types.push_back(port.first->output_type(port.second));
    tensorflow::NameAttrList entry;
    entry.set_name(cluster);
    Node* launch;
    TF_RETURN_IF_ERROR(NodeBuilder(outer_->NewName(cluster), "IpuLaunch")
                           .Input(arguments)
                           .ControlInputs(before_)
                           .Attr("Tresults", types)
                           .Attr("f", entry)
                           .Attr("cluster", cluster)
                           .Device(group_.device)
                           .AssignedDevice(group_.device)
                           .Finalize(outer_, &launch));
    for (const auto& result : results_) {
      TF_RETURN_IF_ERROR(Redirect(result.first, launch, result.second));
    }
    for (Node* node : after_) outer_->AddControlEdge(launch, node);
    for (Node* node : group_.nodes) outer_->RemoveNode(node);
    return tensorflow::OkStatus();
  }

  Status Redirect(const Port& port, Node* launch, int index) {
    std::vector<const Edge*> edges;
    for (const Edge* edge : port.first->out_edges()) {
      if (!edge->IsControlEdge() && edge->src_output() == port.second && !InGroup(edge->dst())) {
        edges.push_back(edge);
      }
    }
    for (const Edge* edge : edges) {
      TF_RETURN_IF_ERROR(outer_->UpdateEdge(launch, index, edge->dst(), edge->dst_input()));
    }
    return tensorflow::OkStatus();
  }

  Graph* outer_;
  const tensorflow::FunctionLibraryDefinition& library_;
  const PlacedGroup group_;
  Graph body_;
  std::map<Node*, Node*> copies_;
  std::map<Port, Node*> arguments_;
  std::map<Port, int> results_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<Node*> before_;
  std::vector<Node*> after_;
  std::set<const Node*> must_run_;
};

// Runs after Grappler, on the part of a graph that is to run.
class CompilePlacedOps : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || IsEagerOp(options) || !HasCompiler()) {
      return tensorflow::OkStatus();
    }
    Graph* graph = options.graph->get();
    std::vector<PlacedGroup> groups = FindPlacedGroups(*graph, *options.flib_def);
    for (PlacedGroup& group : groups) {
      TF_RETURN_IF_ERROR(Extraction(graph, options.flib_def, std::move(group)).Run());
    }
    if (!groups.empty()) tensorflow::FixupSourceAndSinkEdges(graph);
    return tensorflow::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PLACEMENT, 0, KeepPlacedOps);
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0,
                      CompilePlacedOps);

}  // namespace
}  // namespace tensorflow_ipu
