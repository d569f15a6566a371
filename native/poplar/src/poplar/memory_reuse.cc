#include "memory_reuse.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "access.h"
#include "types.h"
#include "variable_uses.h"
#include "view.h"

namespace poplar::core {
namespace {

constexpr uint64_t kAlignment = 64;
// Vertices may read a little behind the end of a variable.
constexpr uint64_t kPadding = 16;

// The first and the last step that a variable is used in.
struct Lifetime {
  uint32_t variable;
  int first, last;
  // Operands of the step that makes it, whose memory it may take over.
  std::vector<uint32_t> operands;
};

// The variable that a tensor is all of, in order; else -1.
int64_t WholeVariableOf(const GraphData& graph, const Tensor& tensor) {
  const RunList list = RunsOf(*Access::View(tensor));
  if (list.runs().size() != 1) return -1;
  const Run& run = list.runs()[0];
  const bool whole =
      run.begin == 0 && run.stride == 1 && run.count == graph.variables[run.var].count;
  return whole ? int64_t{run.var} : -1;
}

// Numbers the steps of a program. A loop, a conditional or a call is one step.
class Lifetimes {
 public:
  Lifetimes(const GraphData& graph, const std::vector<uint32_t>& variables) : graph_(graph) {
    for (const uint32_t variable : variables) lifetimes_[variable] = {variable, -1, -1, {}};
    for (const Edge& edge : graph.edges) {
      const uint32_t set = graph.vertices[edge.vertex].compute_set;
      edge.ForEachRun([&](const Run& run) { sets_[set].insert(run.var); });
    }
  }

  std::vector<Lifetime> Of(const program::Program& program) {
    Flatten(program);
    std::vector<Lifetime> used;
    for (const auto& [variable, lifetime] : lifetimes_) {
      if (lifetime.first >= 0) used.push_back(lifetime);
    }
    return used;
  }

 private:
  void Flatten(const program::Program& program) {
    const auto& node = Access::Node(program);
    if (node == nullptr) return;
    if (node->kind == ProgramKind::kSequence) {
      for (const program::Program& child : node->children) Flatten(child);
      return;
    }
    Use(*node);
    if (node->kind == ProgramKind::kLibraryOp && node->flag) FindOperand(*node);
    ++step_;
  }

  // Kernels that may work in place do so where an operand is of the result's type and shape.
  void FindOperand(const ProgramNode& node) {
    if (node.outputs.size() != 1) return;
    const Tensor& output = node.outputs[0];
    const auto made = lifetimes_.find(static_cast<uint32_t>(WholeVariableOf(graph_, output)));
    if (made == lifetimes_.end() || made->second.first != step_) return;
    for (const Tensor& input : node.inputs) {
      if (input.shape() != output.shape() || input.elementType() != output.elementType()) continue;
      const int64_t operand = WholeVariableOf(graph_, input);
      if (operand >= 0) made->second.operands.push_back(static_cast<uint32_t>(operand));
    }
  }

  // All that a node and the nodes inside use.
  void Use(const ProgramNode& node) {
    for (const Tensor& tensor : node.inputs) Use(tensor);
    for (const Tensor& tensor : node.outputs) Use(tensor);
    if (node.kind == ProgramKind::kExecute) {
      for (const uint32_t variable : sets_[node.number]) Use(variable);
      for (const program::Program& op : graph_.compute_sets[node.number].ops) Use(op);
    }
    if (node.kind == ProgramKind::kCall) Use(graph_.functions[node.number]);
    for (const program::Program& child : node.children) Use(child);
  }

  void Use(const program::Program& program) {
    const auto& node = Access::Node(program);
    if (node != nullptr) Use(*node);
  }

  void Use(const Tensor& tensor) {
    ForEachRun(*Access::View(tensor), [&](const Run& run) { Use(run.var); });
  }

  void Use(uint32_t variable) {
    const auto found = lifetimes_.find(variable);
    if (found == lifetimes_.end()) return;
    if (found->second.first < 0) found->second.first = step_;
    found->second.last = step_;
  }

  const GraphData& graph_;
  std::map<uint32_t, Lifetime> lifetimes_;
  std::unordered_map<uint32_t, std::set<uint32_t>> sets_;  // variables of compute sets
  int step_ = 0;
};

// Gives out parts of an arena, those first that were given back last.
class Arena {
 public:
  uint64_t Take(uint64_t bytes) {
    const auto fits = [bytes](const Part& part) { return part.bytes >= bytes; };
    const auto found = std::find_if(free_.rbegin(), free_.rend(), fits);
    if (found == free_.rend()) {
      size_ += bytes;
      return size_ - bytes;
    }
    const uint64_t begin = found->begin;
    found->begin += bytes;
    found->bytes -= bytes;
    if (found->bytes == 0) free_.erase(std::next(found).base());
    return begin;
  }

  void Return(uint64_t begin, uint64_t bytes) { free_.push_back({begin, bytes}); }

  uint64_t size() const { return size_; }

 private:
  struct Part {
    uint64_t begin, bytes;
  };
  std::vector<Part> free_;
  uint64_t size_ = 0;
};

bool MayShare(const Variable& variable) {
  return !variable.constant && variable.initial.empty() && variable.external < 0 &&
         !variable.replica_index && variable.count > 0;
}

// Registers stand for variables that the engine reads by itself.
bool IsRegister(const GraphData& graph, uint32_t variable) {
  for (const ViewPtr& view : {graph.floating_point_register, graph.seed_registers}) {
    if (view != nullptr && view->strided.var == variable) return true;
  }
  return false;
}

// Bytes of variables on each tile, and the most that a tile has had.
class TileBytes {
 public:
  explicit TileBytes(const GraphData& graph)
      : graph_(graph), bytes_(graph.target.getNumTiles(), 0) {}

  void Add(uint32_t variable) { Change(variable, 1); }
  void Remove(uint32_t variable) { Change(variable, -1); }
  uint64_t most() const { return static_cast<uint64_t>(most_); }

 private:
  void Change(uint32_t number, int64_t sign) {
    const Variable& variable = graph_.variables[number];
    const int64_t size = sign * static_cast<int64_t>(SizeOf(variable.type));
    variable.tiles.ForEach(0, variable.count, [&](uint64_t begin, uint64_t end, int64_t tile) {
      if (tile == kUnmapped) return;
      bytes_[tile] += static_cast<int64_t>(end - begin) * size;
      most_ = std::max(most_, bytes_[tile]);
    });
  }

  const GraphData& graph_;
  std::vector<int64_t> bytes_;
  int64_t most_ = 0;
};

}  // namespace

uint64_t ShareMemory(GraphData* graph, const program::Program& program) {
  std::vector<uint32_t> candidates;
  for (uint32_t v = 0; v < graph->variables.size(); ++v) {
    if (MayShare(graph->variables[v]) && !IsRegister(*graph, v)) candidates.push_back(v);
  }
  const std::map<uint32_t, VariableUse> uses = UsesOf(*graph, program, candidates);
  const auto keeps = [&](uint32_t v) { return uses.at(v).read_first; };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), keeps), candidates.end());
  std::vector<Lifetime> lifetimes = Lifetimes(*graph, candidates).Of(program);
  std::sort(lifetimes.begin(), lifetimes.end(),
            [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
  TileBytes tiles(*graph);
  const std::set<uint32_t> sharing(candidates.begin(), candidates.end());
  for (uint32_t v = 0; v < graph->variables.size(); ++v) {
    if (graph->variables[v].external < 0 && sharing.count(v) == 0) tiles.Add(v);
  }
  Arena arena;
  struct Part {
    uint32_t variable;
    uint64_t begin, bytes;
  };
  std::multimap<int, Part> used;  // by last step
  // The part of an operand that nothing uses after a step; it is taken out.
  const auto take_over = [&used](const Lifetime& lifetime, uint64_t bytes) -> std::optional<Part> {
    const auto [begin, end] = used.equal_range(lifetime.first);
    for (auto it = begin; it != end; ++it) {
      const auto& operands = lifetime.operands;
      const bool is_operand =
          std::find(operands.begin(), operands.end(), it->second.variable) != operands.end();
      if (!is_operand || it->second.bytes != bytes) continue;
      const Part part = it->second;
      used.erase(it);
      return part;
    }
    return std::nullopt;
  };
  for (const Lifetime& lifetime : lifetimes) {
    const auto over = used.lower_bound(lifetime.first);
    for (auto it = used.begin(); it != over; ++it) {
      arena.Return(it->second.begin, it->second.bytes);
      tiles.Remove(it->second.variable);
    }
    used.erase(used.begin(), over);
    Variable& variable = graph->variables[lifetime.variable];
    const uint64_t padded = variable.count * SizeOf(variable.type) + kPadding;
    const uint64_t bytes = (padded + kAlignment - 1) / kAlignment * kAlignment;
    const std::optional<Part> operand = take_over(lifetime, bytes);
    if (operand.has_value()) tiles.Remove(operand->variable);
    const uint64_t begin = operand.has_value() ? operand->begin : arena.Take(bytes);
    variable.place = static_cast<int64_t>(begin);
    tiles.Add(lifetime.variable);
    used.emplace(lifetime.last, Part{lifetime.variable, begin, bytes});
  }
  graph->arena = arena.size();
  return tiles.most();
}

}  // namespace poplar::core
