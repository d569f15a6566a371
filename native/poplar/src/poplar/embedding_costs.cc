#include "embedding_costs.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "poplar/Type.hpp"
#include "poplar/core/OpWork.hpp"

namespace poplar::core {
namespace {

// Sums the steps of a program, each as often as it runs. All branches count; a loop that may end
// at any time counts once.
class Sum {
 public:
  explicit Sum(const ExecutableData& code) : code_(code) {}

  void AddFrom(int64_t at, uint64_t times) {
    std::vector<uint64_t> outer;
    for (;; ++at) {
      const Instruction& i = code_.instructions[at];
      if (i.op == Op::kLibraryOp || i.op == Op::kMeet) {
        ops_[i.a] += times;
      } else if (i.step != 0) {
        const StepProfile& step = code_.profile.steps[i.step];
        compute_ += times * step.compute;
        exchange_ += times * step.exchange;
        sync_ += times * step.sync;
      }
      switch (i.op) {
        case Op::kLoopBegin:
          outer.push_back(times);
          times *= static_cast<uint64_t>(i.b);
          break;
        case Op::kLoopEnd:
          times = outer.back();
          outer.pop_back();
          break;
        case Op::kCall:
          AddFrom(i.b, times);
          break;
        case Op::kJumpIfZero:
        case Op::kJumpIfNotZero:
        case Op::kSwitch:
          certain_ = false;
          break;
        case Op::kReturn:
          return;
        default:
          break;
      }
    }
  }

  void Write(std::ostream& out) const {
    out << "\"compute\":" << compute_ << ",\"exchange\":" << exchange_ << ",\"sync\":" << sync_
        << ",\"certain\":" << (certain_ && AllEstimated() ? "true" : "false") << ",\"ops\":[";
    const char* separator = "";
    for (const auto& [number, times] : ops_) {
      const KernelSpec& spec = code_.library_ops[number].spec;
      out << separator << "{\"name\":\"" << spec.name << "\",\"times\":" << times << ",\"inputs\":";
      WriteTensors(spec.inputs, out);
      out << ",\"outputs\":";
      WriteTensors(spec.outputs, out);
      const MatrixWork work = workOf(spec);
      if (work.times > 0) {
        out << ",\"products\":[" << work.times << "," << work.groups << "," << work.rows << ","
            << work.inner << "," << work.columns << "]";
      }
      out << "}";
      separator = ",";
    }
    out << "]";
  }

 private:
  bool AllEstimated() const {
    for (const ComputeSetProfile& set : code_.profile.used_compute_sets) {
      uint64_t vertices = 0;
      for (const auto& [type, count] : set.vertices) vertices += count;
      if (set.estimated < vertices) return false;
    }
    return true;
  }

  static void WriteTensors(const std::vector<KernelTensor>& tensors, std::ostream& out) {
    out << "[";
    for (size_t t = 0; t < tensors.size(); ++t) {
      out << (t > 0 ? "," : "") << "[\"" << tensors[t].type.toString().cloneAsString() << "\",[";
      for (size_t d = 0; d < tensors[t].shape.size(); ++d) {
        out << (d > 0 ? "," : "") << tensors[t].shape[d];
      }
      out << "]]";
    }
    out << "]";
  }

  const ExecutableData& code_;
  uint64_t compute_ = 0, exchange_ = 0, sync_ = 0;
  std::map<int64_t, uint64_t> ops_;  // how often each runs
  bool certain_ = true;
};

uint64_t Most(const std::vector<uint64_t>& by_tile) {
  return by_tile.empty() ? 0 : *std::max_element(by_tile.begin(), by_tile.end());
}

}  // namespace

std::string CostsOf(const ExecutableData& code, uint64_t temporary) {
  Sum sum(code);
  sum.AddFrom(code.entries.at(0), 1);
  std::ostringstream out;
  out << "{";
  sum.Write(out);
  const auto& counts = code.profile.vertex_counts;
  out << ",\"temporary\":" << temporary << ",\"vertex_state\":" << Most(code.profile.vertex_bytes)
      << ",\"vertices\":" << code.profile.vertices
      << ",\"tiles\":" << counts.size() - std::count(counts.begin(), counts.end(), 0u)
      << ",\"codelets\":[";
  std::map<std::string, uint64_t> types;
  for (const ComputeSetProfile& set : code.profile.used_compute_sets) {
    types.insert(set.vertices.begin(), set.vertices.end());
  }
  const char* separator = "";
  for (const auto& [type, count] : types) {
    out << separator << "\"" << type << "\"";
    separator = ",";
  }
  out << "]}";
  return out.str();
}

}  // namespace poplar::core
