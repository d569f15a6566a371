#include "variable_uses.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "access.h"
#include "poplar/core/WrittenVariables.hpp"
#include "view.h"

namespace poplar::core {
namespace {

// Disjoint intervals of elements.
class Intervals {
 public:
  void Add(int64_t begin, int64_t end) {
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = it->first;
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    while (it != ends_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    ends_.emplace_hint(it, begin, end);
  }

  bool Contains(int64_t begin, int64_t end) const {
    const auto it = ends_.upper_bound(begin);
    return it != ends_.begin() && std::prev(it)->second >= end;
  }

  Intervals Intersection(const Intervals& other) const {
    Intervals result;
    for (const auto& [begin, end] : ends_) {
      auto it = other.ends_.upper_bound(begin);
      if (it != other.ends_.begin()) --it;
      for (; it != other.ends_.end() && it->first < end; ++it) {
        const int64_t from = std::max(begin, it->first), to = std::min(end, it->second);
        if (from < to) result.Add(from, to);
      }
    }
    return result;
  }

 private:
  std::map<int64_t, int64_t> ends_;  // by begin
};

// The elements of each variable that have been written.
using Defined = std::map<uint32_t, Intervals>;

class Walk {
 public:
  Walk(const GraphData& graph, const std::vector<uint32_t>& variables) : graph_(graph) {
    for (const uint32_t variable : variables) uses_[variable];
    IndexEdges();
  }

  std::map<uint32_t, VariableUse> Uses(const program::Program& program) {
    Defined defined;
    Visit(program, &defined);
    for (auto& [variable, use] : uses_) {
      const int64_t count = static_cast<int64_t>(graph_.variables[variable].count);
      use.defined = count == 0 || defined[variable].Contains(0, count);
    }
    return uses_;
  }

 private:
  struct FieldUse {
    const Edge* edge;
    FieldAccess access;
  };

  void IndexEdges() {
    for (const Edge& edge : graph_.edges) {
      bool known = false;
      edge.ForEachRun([&](const Run& run) { known |= uses_.count(run.var) > 0; });
      if (!known) continue;
      const Vertex& vertex = graph_.vertices[edge.vertex];
      fields_[vertex.compute_set].push_back({&edge, vertex.type->fields[edge.field].access});
    }
  }

  template <typename Function>
  static void ForEachInterval(const Run& run, Function visit) {
    if (run.stride == 1 || run.stride == -1 || run.count == 1) {
      visit(run.Lowest(), run.Highest() + 1);
    } else {
      for (uint64_t i = 0; i < run.count; ++i) visit(run.At(i), run.At(i) + 1);
    }
  }

  void Read(const Run& run, const Defined& defined) {
    const auto use = uses_.find(run.var);
    if (use == uses_.end() || use->second.read_first) return;
    const auto known = defined.find(run.var);
    ForEachInterval(run, [&](int64_t begin, int64_t end) {
      if (known == defined.end() || !known->second.Contains(begin, end)) {
        use->second.read_first = true;
      }
    });
  }

  void Write(const Run& run, Defined* defined) {
    const auto use = uses_.find(run.var);
    if (use == uses_.end()) return;
    use->second.written = true;
    Intervals& intervals = (*defined)[run.var];
    ForEachInterval(run, [&](int64_t begin, int64_t end) { intervals.Add(begin, end); });
  }

  void ReadAll(const std::vector<Tensor>& tensors, const Defined& defined) {
    for (const Tensor& tensor : tensors) {
      core::ForEachRun(*Access::View(tensor), [&](const Run& run) { Read(run, defined); });
    }
  }

  void WriteAll(const std::vector<Tensor>& tensors, Defined* defined) {
    for (const Tensor& tensor : tensors) {
      core::ForEachRun(*Access::View(tensor), [&](const Run& run) { Write(run, defined); });
    }
  }

  void Visit(const program::Program& program, Defined* defined) {
    const auto& node = Access::Node(program);
    if (node != nullptr) Visit(*node, defined);
  }

  void Visit(const ProgramNode& node, Defined* defined) {
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const program::Program& child : node.children) Visit(child, defined);
        return;
      case ProgramKind::kLoop:
        Visit(node.children[0], defined);
        return;
      case ProgramKind::kRepeat:
        if (node.number > 0) Visit(node.children[0], defined);
        return;
      case ProgramKind::kWhile: {
        Visit(node.children[0], defined);
        ReadAll(node.inputs, *defined);
        Defined body = *defined;  // may never run
        Visit(node.children[1], &body);
        return;
      }
      case ProgramKind::kIf:
      case ProgramKind::kSwitch:
        ReadAll(node.inputs, *defined);
        VisitBranches(node.children, defined);
        return;
      case ProgramKind::kCall:
        if (node.number < graph_.functions.size()) Visit(graph_.functions[node.number], defined);
        return;
      case ProgramKind::kExecute:
        VisitComputeSet(node.number, defined);
        for (const program::Program& op : graph_.compute_sets[node.number].ops) Visit(op, defined);
        WriteAll(node.outputs, defined);
        return;
      case ProgramKind::kAbort:  // prints its outputs
        ReadAll(node.inputs, *defined);
        ReadAll(node.outputs, *defined);
        return;
      default:
        ReadAll(node.inputs, *defined);
        WriteAll(node.outputs, defined);
    }
  }

  // One of them runs: defined is what all define.
  void VisitBranches(const std::vector<program::Program>& branches, Defined* defined) {
    std::vector<Defined> after;
    for (const program::Program& branch : branches) {
      after.push_back(*defined);
      Visit(branch, &after.back());
    }
    for (const auto& [variable, use] : uses_) {
      Intervals common = after[0][variable];
      for (size_t b = 1; b < after.size(); ++b) {
        common = common.Intersection(after[b][variable]);
      }
      (*defined)[variable] = std::move(common);
    }
  }

  // All of a compute set read before any of it writes.
  void VisitComputeSet(unsigned id, Defined* defined) {
    const std::vector<FieldUse>& fields = fields_[id];
    const std::vector<program::Program>& ops = graph_.compute_sets[id].ops;
    for (const FieldUse& field : fields) {
      if (field.access == FieldAccess::Write) continue;
      field.edge->ForEachRun([&](const Run& run) { Read(run, *defined); });
    }
    for (const program::Program& op : ops) ReadAll(Access::Node(op)->inputs, *defined);
    for (const FieldUse& field : fields) {
      if (field.access == FieldAccess::Read) continue;
      field.edge->ForEachRun([&](const Run& run) { Write(run, defined); });
    }
    for (const program::Program& op : ops) WriteAll(Access::Node(op)->outputs, defined);
  }

  const GraphData& graph_;
  std::map<uint32_t, VariableUse> uses_;
  std::unordered_map<uint32_t, std::vector<FieldUse>> fields_;  // by compute set
};

}  // namespace

std::map<uint32_t, VariableUse> UsesOf(const GraphData& graph, const program::Program& program,
                                       const std::vector<uint32_t>& variables) {
  return Walk(graph, variables).Uses(program);
}

bool writesInto(const Graph& graph, const program::Program& program, const Tensor& tensor) {
  std::vector<uint32_t> variables;
  ForEachRun(*Access::View(tensor), [&](const Run& run) { variables.push_back(run.var); });
  for (const auto& [variable, use] : UsesOf(*Access::Data(graph), program, variables)) {
    if (use.written) return true;
  }
  return false;
}

}  // namespace poplar::core
