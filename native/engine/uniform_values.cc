#include "engine/uniform_values.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/control_flow.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::FunctionDef;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::Status;

using Names = std::unordered_set<std::string>;

// What an op does, as far as the analysis tells ops apart.
enum class Kind {
  kFlow,        // control flow: every replica does its own
  kPassHandle,  // an argument, or a handle that is passed on
  kCompute,     // the same results from the same inputs, and no effect
  kRead,        // the same of variables
  kWrite,       // writes variables, and has no results
  kCollective,  // replicas meet
  kNothing,     // no value: NoOp, results of the program
  kOther,       // anything else
};

bool IsCollective(const std::string& op) {
  static const auto* names = new Names{
      "IpuCrossReplicaSum",
      "IpuReduceScatter",
      "IpuReplicaBroadcast",
      "IpuAllGather",
      "IpuAllToAll",
      "IpuHostEmbeddingUpdate",
      "IpuPrecompiledUserCollective",
  };
  return names->count(op) > 0;
}

bool IsRead(const std::string& op) {
  static const auto* names = new Names{"ReadVariableOp", "VariableShape",    "VarIsInitializedOp",
                                       "ResourceGather", "ResourceGatherNd", "IpuRemoteLoad"};
  return names->count(op) > 0;
}

bool IsWrite(const std::string& op) {
  static const auto* names =
      new Names{"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
                "ResourceStridedSliceAssign", "IpuRemoteStore"};
  return names->count(op) > 0 || absl::StartsWith(op, "ResourceApply") ||
         absl::StartsWith(op, "ResourceSparseApply") || absl::StartsWith(op, "ResourceScatter");
}

// Ops of ours that are stateful only so that TensorFlow leaves them where they are.
bool IsCompute(const std::string& op) {
  static const auto* names = new Names{"IpuCheckNumerics", "IpuCheckCast", "IpuReplicationFactor",
                                       "IpuAssumeEqualAcrossReplicas"};
  return names->count(op) > 0;
}

// A value that the host sends to all replicas of the process. The name is SENT_ALIKE_ATTRIBUTE of
// compiler/ir/program.py.
bool IsSentAlike(const Node& node) { return node.attrs().Find("_ipu_sent_alike") != nullptr; }

// A rounding that draws the same numbers on all replicas.
bool IsSharedRounding(const Node& node) {
  bool same = false;
  return node.type_string() == "IpuRoundStochastically" &&
         tensorflow::GetNodeAttr(node.attrs(), "same_on_all_replicas", &same).ok() && same;
}

bool HasType(const tensorflow::DataTypeVector& types, DataType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// The functions that a node calls or that its attributes name.
std::vector<std::string> FunctionsOf(const std::string& op,
                                     const tensorflow::AttrValueMap& attributes,
                                     const FunctionLibraryDefinition& library) {
  std::vector<std::string> names;
  if (library.Contains(op)) names.push_back(op);
  for (const auto& [name, value] : attributes) {
    if (value.value_case() == AttrValue::kFunc) names.push_back(value.func().name());
    for (const auto& function : value.list().func()) names.push_back(function.name());
  }
  return names;
}

// Whether functions do nothing but compute results.
class Purity {
 public:
  explicit Purity(const FunctionLibraryDefinition& library) : library_(library) {}

  bool IsPure(const std::string& function) {
    const auto [known, is_new] = pure_.emplace(function, true);
    if (!is_new) return known->second;  // of one that calls itself, the others tell
    const bool pure = Look(function);
    pure_[function] = pure;
    return pure;
  }

 private:
  bool Look(const std::string& name) {
    const FunctionDef* function = library_.Find(name);
    if (function == nullptr) return false;
    for (const NodeDef& node : function->node_def()) {
      const std::vector<std::string> called = FunctionsOf(node.op(), node.attr(), library_);
      if (!std::all_of(called.begin(), called.end(),
                       [this](const std::string& inner) { return IsPure(inner); })) {
        return false;
      }
      if (library_.Contains(node.op()) && !called.empty()) continue;
      const OpDef* op = nullptr;
      if (!library_.LookUpOpDef(node.op(), &op).ok()) return false;
      // A call or loop is stateful for what it calls.
      if (op->is_stateful() && called.empty()) return false;
    }
    return true;
  }

  const FunctionLibraryDefinition& library_;
  std::unordered_map<std::string, bool> pure_;
};

// A condition that replicas may differ in: where the predicate comes from, and which way.
using Condition = std::pair<int, int>;
using Conditions = std::set<Condition>;

// Conditions of this predicate stand for what the analysis cannot tell.
constexpr int kUnknownPredicate = -1;

// The analysis starts with everything equal, and takes back what is not until nothing changes.
class Analysis {
 public:
  Analysis(const Graph& graph, const FunctionLibraryDefinition& library, int replicas,
           const std::vector<int>& aliases)
      : graph_(graph), replicas_(replicas), aliases_(aliases), purity_(library) {
    const int count = graph.num_node_ids();
    kinds_.resize(count, Kind::kNothing);
    handles_.resize(count);
    differs_.resize(count);
    conditions_.resize(count);
    for (const Node* node : graph.op_nodes()) kinds_[node->id()] = KindOf(*node, library);
    tensorflow::GetReversePostOrder(graph, &order_, tensorflow::NodeComparatorName());
  }

  Status Run(UniformValues* values) {
    TF_RETURN_IF_ERROR(FindFrames());
    if (!FollowHandles()) return tensorflow::OkStatus();
    do {
      changed_ = false;
      UpdateFrames();
      for (const Node* node : order_) {
        if (node->IsOp()) Visit(*node);
      }
    } while (changed_);
    if (CollectivesDiffer()) return tensorflow::OkStatus();
    Collect(values);
    return tensorflow::OkStatus();
  }

 private:
  // A variable that replicas may share: its argument. Or one that each has of its own, below zero:
  // a small one, or one of the program.
  using Handles = std::set<int>;

  Kind KindOf(const Node& node, const FunctionLibraryDefinition& library) {
    const std::string& op = node.type_string();
    if (node.IsSwitch() || node.IsMerge() || node.IsEnter() || node.IsExit() ||
        node.IsNextIteration() || node.IsLoopCond()) {
      return Kind::kFlow;
    }
    if (op == "NoOp" || node.IsRetval() || node.IsControlTrigger()) return Kind::kNothing;
    if (node.IsArg() || op == "IpuProgramVariable") return Kind::kPassHandle;
    if (node.IsIdentity() && HasType(node.output_types(), tensorflow::DT_RESOURCE)) {
      return Kind::kPassHandle;
    }
    if (IsCollective(op)) return Kind::kCollective;
    if (IsRead(op)) return Kind::kRead;
    if (IsWrite(op) && node.num_outputs() == 0) return Kind::kWrite;
    if (HasType(node.input_types(), tensorflow::DT_RESOURCE)) return Kind::kOther;
    if (HasType(node.output_types(), tensorflow::DT_RESOURCE)) return Kind::kOther;
    const std::vector<std::string> functions =
        FunctionsOf(op, tensorflow::AttrValueMap(node.def().attr()), library);
    if (!functions.empty()) {
      const bool pure = std::all_of(functions.begin(), functions.end(),
                                    [this](const auto& name) { return purity_.IsPure(name); });
      return pure ? Kind::kCompute : Kind::kOther;
    }
    if (IsSharedRounding(node)) return HasOwnStream(node) ? Kind::kCompute : Kind::kOther;
    return IsCompute(op) || !node.op_def().is_stateful() ? Kind::kCompute : Kind::kOther;
  }

  // Executions of one stream are numbered, so all of its ops have to run on the same replicas.
  bool HasOwnStream(const Node& node) {
    if (streams_.empty()) {
      for (const Node* other : graph_.op_nodes()) {
        int64_t stream;
        if (tensorflow::GetNodeAttr(other->attrs(), "stream", &stream).ok()) ++streams_[stream];
      }
    }
    int64_t stream = 0;
    return tensorflow::GetNodeAttr(node.attrs(), "stream", &stream).ok() && streams_[stream] == 1;
  }

  Status FindFrames() {
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph_, &flow_));
    for (const Node* node : graph_.op_nodes()) {
      if (node->IsEnter()) enters_[flow_[node->id()].frame_name].push_back(node);
      if (node->IsLoopCond()) loop_conditions_[flow_[node->id()].frame_name] = node;
    }
    return tensorflow::OkStatus();
  }

  // Finds which variables each handle may be. Returns whether all are known.
  bool FollowHandles() {
    int next = -1 - static_cast<int>(aliases_.size());
    for (const Node* node : graph_.op_nodes()) {
      const bool makes = HasType(node->output_types(), tensorflow::DT_RESOURCE);
      if (!makes) continue;
      if (node->IsArg()) {
        int index = 0;
        if (!tensorflow::GetNodeAttr(node->attrs(), "index", &index).ok()) return false;
        handles_[node->id()] = {aliases_[index]};
      } else if (node->type_string() == "IpuProgramVariable") {
        handles_[node->id()] = {next--};
      } else if (kinds_[node->id()] != Kind::kFlow && kinds_[node->id()] != Kind::kPassHandle) {
        return false;
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node* node : order_) {
        if (!node->IsOp() || !HasType(node->output_types(), tensorflow::DT_RESOURCE)) continue;
        Handles& own = handles_[node->id()];
        const size_t before = own.size();
        for (const Edge* edge : node->in_edges()) {
          if (edge->IsControlEdge()) continue;
          const Handles& more = handles_[edge->src()->id()];
          own.insert(more.begin(), more.end());
        }
        changed = changed || own.size() > before;
      }
    }
    return true;
  }

  // The variables among the inputs of a node.
  Handles VariablesOf(const Node& node) const {
    Handles all;
    for (const Edge* edge : node.in_edges()) {
      if (edge->IsControlEdge() ||
          edge->src()->output_type(edge->src_output()) != tensorflow::DT_RESOURCE) {
        continue;
      }
      const Handles& more = handles_[edge->src()->id()];
      all.insert(more.begin(), more.end());
    }
    return all;
  }

  void Visit(const Node& node) {
    UpdateConditions(node);
    bool differs = false;
    for (const Edge* edge : node.in_edges()) {
      if (!edge->IsControlEdge() && differs_[edge->src()->id()]) differs = true;
    }
    const Kind kind = kinds_[node.id()];
    if (kind == Kind::kFlow) {
      differs = FlowDiffers(node, differs);
    } else if (kind == Kind::kRead) {
      differs = differs || AnyDiffers(VariablesOf(node));
    } else if (kind == Kind::kWrite) {
      VisitWrite(node, differs);
    } else if (kind == Kind::kCollective) {
      differs = !Equalises(node);
    } else if (IsSentAlike(node)) {
      differs = false;
    } else if (kind == Kind::kOther) {
      differs = true;
      SetDiffer(VariablesOf(node));
    }
    if (differs && !differs_[node.id()]) {
      differs_[node.id()] = true;
      changed_ = true;
    }
  }

  bool AnyDiffers(const Handles& variables) const {
    return std::any_of(variables.begin(), variables.end(),
                       [this](int variable) { return differing_variables_.count(variable) > 0; });
  }

  void SetDiffer(const Handles& variables) {
    for (const int variable : variables) {
      if (differing_variables_.insert(variable).second) changed_ = true;
    }
  }

  // A write is to variables that all replicas have one of, or each has its own, not to both.
  void VisitWrite(const Node& node, bool differs) {
    const Handles variables = VariablesOf(node);
    const bool mixed = !variables.empty() && *variables.begin() < 0 && *variables.rbegin() >= 0;
    if (differs || mixed || AnyDiffers(variables) || !RunsAlike(node)) SetDiffer(variables);
  }

  // Whether a collective has the same result on all replicas.
  bool Equalises(const Node& node) const {
    const std::string& op = node.type_string();
    if (op == "IpuReplicaBroadcast") return true;
    int size = 0;
    if (op == "IpuCrossReplicaSum") {
      return tensorflow::GetNodeAttr(node.attrs(), "replica_group_size", &size).ok() &&
             (size == 0 || size == replicas_);
    }
    return op == "IpuAllGather" &&
           tensorflow::GetNodeAttr(node.attrs(), "replication_factor", &size).ok() &&
           size == replicas_;
  }

  bool FlowDiffers(const Node& node, bool inputs) const {
    if (node.IsExit()) return inputs || FrameDiffers(flow_[node.id()].frame_name);
    if (node.IsMerge()) return inputs || ChoiceDiffers(node);
    if (node.IsSwitch()) {
      // Its results are equal where they are: the predicate is a condition of what they reach.
      const Edge* data = nullptr;
      return !node.input_edge(0, &data).ok() || differs_[data->src()->id()];
    }
    return inputs;
  }

  // Whether a merge may take one input on one replica, and another one on another.
  bool ChoiceDiffers(const Node& merge) const {
    const auto& edges = merge.in_edges();
    return std::any_of(edges.begin(), edges.end(), [this](const Edge* edge) {
      return !edge->IsControlEdge() && !edge->src()->IsNextIteration() &&
             !ConditionsOf(*edge).empty();
    });
  }

  bool FrameDiffers(const std::string& name) const { return differing_frames_.count(name) > 0; }

  // Finds the frames whose iterations replicas may run a different number of times.
  void UpdateFrames() {
    for (const auto& [name, enters] : enters_) {
      if (FrameDiffers(name)) continue;
      const auto condition = loop_conditions_.find(name);
      bool differs = condition == loop_conditions_.end() || differs_[condition->second->id()];
      for (const Node* enter : enters) {
        const Node* parent = flow_[enter->id()].parent_frame;
        differs = differs || parent == nullptr || !conditions_[enter->id()].empty() ||
                  FrameDiffers(flow_[parent->id()].frame_name);
      }
      if (!differs) continue;
      differing_frames_.insert(name);
      changed_ = true;
    }
  }

  bool RunsAlike(const Node& node) const {
    return conditions_[node.id()].empty() && !FrameDiffers(flow_[node.id()].frame_name);
  }

  // The conditions for what comes along an edge.
  Conditions ConditionsOf(const Edge& edge) const {
    const Node& source = *edge.src();
    Conditions conditions = conditions_[source.id()];
    if (edge.IsControlEdge() || !source.IsSwitch()) return conditions;
    const Edge* predicate = nullptr;
    if (!source.input_edge(1, &predicate).ok()) return {{kUnknownPredicate, source.id()}};
    const int from = predicate->src()->id();
    if (!differs_[from]) return conditions;
    if (source.num_outputs() != 2) {
      conditions.insert({kUnknownPredicate, source.id()});
    } else {
      conditions.insert({from, edge.src_output()});
    }
    return conditions;
  }

  void UpdateConditions(const Node& node) {
    Conditions conditions;
    if (node.IsExit()) {  // of a loop that ends, as they all do
      for (const Node* enter : enters_[flow_[node.id()].frame_name]) {
        const Conditions& more = conditions_[enter->id()];
        conditions.insert(more.begin(), more.end());
      }
    } else if (node.IsMerge()) {
      conditions = Merged(node);
    } else {
      for (const Edge* edge : node.in_edges()) {
        const Conditions more = ConditionsOf(*edge);
        conditions.insert(more.begin(), more.end());
      }
    }
    if (conditions != conditions_[node.id()]) {
      conditions_[node.id()] = std::move(conditions);
      changed_ = true;
    }
  }

  // Both ways of a condition together are always taken. What comes from the iteration before is
  // there whenever there is another iteration.
  Conditions Merged(const Node& merge) const {
    std::vector<Conditions> ways;
    Conditions all;
    for (const Edge* edge : merge.in_edges()) {
      if (edge->src()->IsNextIteration()) continue;
      Conditions conditions = ConditionsOf(*edge);
      if (edge->IsControlEdge()) {
        all.insert(conditions.begin(), conditions.end());
      } else {
        ways.push_back(std::move(conditions));
      }
    }
    if (ways.size() == 2 && ways[0].size() == ways[1].size()) {
      Conditions left, right;
      std::set_difference(ways[0].begin(), ways[0].end(), ways[1].begin(), ways[1].end(),
                          std::inserter(left, left.begin()));
      std::set_difference(ways[1].begin(), ways[1].end(), ways[0].begin(), ways[0].end(),
                          std::inserter(right, right.begin()));
      const bool opposite = left.size() == 1 && right.size() == 1 &&
                            left.begin()->first == right.begin()->first &&
                            left.begin()->first != kUnknownPredicate;
      if (opposite) ways[0].erase(*left.begin());
      if (opposite || left.empty()) {
        all.insert(ways[0].begin(), ways[0].end());
        return all;
      }
    }
    for (const Conditions& way : ways) {
      if (way.empty()) continue;
      all.insert({kUnknownPredicate, merge.id()});
    }
    return all;
  }

  std::string TextOf(const Conditions& conditions) const {
    std::vector<std::string> texts;
    for (const auto& [predicate, way] : conditions) {
      const Node* node = graph_.FindNodeId(predicate == kUnknownPredicate ? way : predicate);
      texts.push_back(node->name() + (predicate == kUnknownPredicate ? "?" : ""));
    }
    return absl::StrJoin(texts, ", ");
  }

  bool CollectivesDiffer() const {
    for (const Node* node : graph_.op_nodes()) {
      if (kinds_[node->id()] != Kind::kCollective || RunsAlike(*node)) continue;
      VLOG(1) << "Replicas may come differently to " << node->name() << ", by "
              << TextOf(conditions_[node->id()]) << " or the loop " << flow_[node->id()].frame_name;
      return true;
    }
    return false;
  }

  void Collect(UniformValues* values) const {
    const int count = graph_.num_node_ids();
    values->computed_alike.assign(count, false);
    values->written_alike.assign(count, false);
    values->variables.assign(count, {});
    for (size_t i = 0; i < aliases_.size(); ++i) {
      if (aliases_[i] < 0 || differing_variables_.count(aliases_[i]) > 0) continue;
      values->uniform_variables.insert(static_cast<int>(i));
    }
    for (const Node* node : graph_.op_nodes()) {
      const int id = node->id();
      for (const int variable : VariablesOf(*node)) {
        if (variable >= 0) values->variables[id].insert(variable);
      }
      if (differs_[id] || !RunsAlike(*node)) continue;
      const Kind kind = kinds_[id];
      if (kind == Kind::kCompute || kind == Kind::kRead) {
        values->computed_alike[id] = node->num_outputs() > 0 && HasPlainResults(*node);
      } else if (kind == Kind::kWrite) {
        const Handles variables = VariablesOf(*node);
        values->written_alike[id] =
            !variables.empty() && *variables.begin() >= 0 && !AnyDiffers(variables);
      }
    }
  }

  // Lists of tensors and strings stay where they are.
  static bool HasPlainResults(const Node& node) {
    return std::all_of(node.output_types().begin(), node.output_types().end(), [](DataType type) {
      return !tensorflow::IsRefType(type) && tensorflow::DataTypeCanUseMemcpy(type);
    });
  }

  const Graph& graph_;
  const int replicas_;
  const std::vector<int>& aliases_;
  Purity purity_;
  std::map<int64_t, int> streams_;
  std::vector<Node*> order_;
  std::vector<tensorflow::ControlFlowInfo> flow_;
  std::unordered_map<std::string, std::vector<const Node*>> enters_;
  std::unordered_map<std::string, const Node*> loop_conditions_;
  std::unordered_set<std::string> differing_frames_;
  std::vector<Kind> kinds_;
  std::vector<Handles> handles_;
  std::vector<bool> differs_;
  std::vector<Conditions> conditions_;  // that replicas differ in, for a node to run
  std::set<int> differing_variables_;
  bool changed_ = false;
};

}  // namespace

Status FindUniformValues(const Graph& graph, const FunctionLibraryDefinition& library, int replicas,
                         const std::vector<int>& aliases, UniformValues* values) {
  return Analysis(graph, library, replicas, aliases).Run(values);
}

}  // namespace tensorflow_ipu
