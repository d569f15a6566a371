#include "poprand/RandomGen.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "poplar/access.h"
#include "poplar/graph_data.h"
#include "poprand/codelets.hpp"
#include "poputil/call_site.h"

namespace poprand {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;

void addCodelets(Graph&) {}

namespace {

constexpr unsigned kStateWords = 3;  // seed and number of calls

// The state of a graph's own generator: a variable that the first call makes.
Tensor StateOf(Graph& graph) {
  using poplar::core::Access;
  using poplar::core::GraphData;
  static auto* states = new std::map<GraphData*, std::pair<std::weak_ptr<GraphData>, Tensor>>;
  static std::mutex mu;
  std::lock_guard<std::mutex> lock(mu);
  auto& [owner, state] = (*states)[Access::Data(graph)];
  if (owner.lock() == Access::Shared(graph)) return state;
  // The first call of this graph: another one may have been at its address.
  owner = Access::Shared(graph);
  state = graph.addVariable(poplar::UNSIGNED_INT, {kStateWords}, "poprand/state");
  graph.setTileMapping(state, 0);
  graph.setInitialValue(state, 0u);
  return state;
}

// A call of a generator: its checks and its op.
class Draw {
 public:
  Draw(const char* function, Graph& graph, const Tensor* seed, uint32_t modifier,
       const DebugContext& debug)
      : site(function, graph, debug), seed_(seed) {
    attributes.Set("modifier", modifier).Set("seeded", seed != nullptr);
    if (seed == nullptr) return;
    site.CheckType("seed", *seed, poplar::UNSIGNED_INT);
    site.CheckShape("seed", *seed, {2});
  }

  void CheckType(const Type& type, bool integers) const {
    if (type == poplar::FLOAT || type == poplar::HALF) return;
    if (integers && type == poplar::INT) return;
    site.Fail("outType is " + type.toString().cloneAsString() +
              (integers ? "; expected float, half or int." : "; expected float or half."));
  }

  void CheckProbability(const char* name, double value) const {
    if (value >= 0 && value <= 1) return;
    site.Fail(std::string(name) + " is " + std::to_string(value) + "; expected 0 to 1.");
  }

  void CheckRange(double low, double high) const {
    if (low <= high) return;
    site.Fail("minVal is " + std::to_string(low) + " and maxVal " + std::to_string(high) +
              "; expected minVal <= maxVal. Exchange them.");
  }

  Tensor Add(const char* kernel, const Tensor& like, const Type& type, Sequence& prog,
             std::vector<Tensor> inputs = {}) const {
    const Tensor out = site.NewLike(type, like);
    std::vector<Tensor> outputs = {out};
    if (seed_ != nullptr) {
      inputs.push_back(*seed_);
    } else {
      outputs.push_back(StateOf(site.graph()));
    }
    site.Add(prog, kernel, attributes, inputs, outputs);
    return out;
  }

  const CallSite site;
  Attributes attributes;

 private:
  const Tensor* const seed_;
};

Tensor AddDropout(Draw* draw, const Tensor& input, const Tensor& reference, const Tensor& layout,
                  double keep, double scale, Sequence& prog) {
  draw->site.CheckFloating("input", input);
  draw->CheckProbability("keepProbability", keep);
  draw->attributes.Set("keep", keep).Set("scale", scale).Set("mask", reference.shape());
  return draw->Add("poprand::dropout", layout, input.elementType(), prog, {input});
}

bool Broadcasts(const std::vector<size_t>& from, const std::vector<size_t>& to) {
  if (from.size() > to.size()) return false;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && from[d] != to[d + to.size() - from.size()]) return false;
  }
  return true;
}

}  // namespace

Tensor uniform(Graph& graph, const Tensor* seed, uint32_t seedModifier, const Tensor& reference,
               const Type& outType, double minVal, double maxVal, Sequence& prog,
               const DebugContext& debugContext) {
  Draw draw("poprand::uniform", graph, seed, seedModifier, debugContext);
  draw.CheckType(outType, true);
  draw.CheckRange(minVal, maxVal);
  draw.attributes.Set("min", minVal).Set("max", maxVal);
  return draw.Add("poprand::uniform", reference, outType, prog);
}

Tensor bernoulli(Graph& graph, const Tensor* seed, uint32_t seedModifier, const Tensor& reference,
                 const Type& outType, double prob, Sequence& prog,
                 const DebugContext& debugContext) {
  Draw draw("poprand::bernoulli", graph, seed, seedModifier, debugContext);
  draw.CheckType(outType, true);
  draw.CheckProbability("prob", prob);
  draw.attributes.Set("probability", prob);
  return draw.Add("poprand::bernoulli", reference, outType, prog);
}

Tensor normal(Graph& graph, const Tensor* seed, uint32_t seedModifier, const Tensor& reference,
              const Type& outType, double mean, double stdDev, Sequence& prog,
              const DebugContext& debugContext) {
  Draw draw("poprand::normal", graph, seed, seedModifier, debugContext);
  draw.CheckType(outType, false);
  draw.attributes.Set("mean", mean).Set("deviation", stdDev);
  return draw.Add("poprand::normal", reference, outType, prog);
}

Tensor truncatedNormal(Graph& graph, const Tensor* seed, uint32_t seedModifier,
                       const Tensor& reference, const Type& outType, double mean, double stdDev,
                       double alpha, Sequence& prog, const DebugContext& debugContext) {
  Draw draw("poprand::truncatedNormal", graph, seed, seedModifier, debugContext);
  draw.CheckType(outType, false);
  if (!(alpha > 0)) {
    draw.site.Fail("alpha is " + std::to_string(alpha) + "; expected more than 0.");
  }
  draw.attributes.Set("mean", mean).Set("deviation", stdDev).Set("alpha", alpha);
  return draw.Add("poprand::truncatedNormal", reference, outType, prog);
}

Tensor logUniform(Graph& graph, const Tensor* seed, uint32_t seedModifier, const Tensor& reference,
                  const Type& outType, double minVal, double maxVal, Sequence& prog, double base,
                  const DebugContext& debugContext) {
  Draw draw("poprand::logUniform", graph, seed, seedModifier, debugContext);
  draw.CheckType(outType, true);
  draw.CheckRange(minVal, maxVal);
  if (!(minVal > 0)) draw.site.Fail("minVal is not above 0, and has no logarithm.");
  if (!(base > 1)) {
    draw.site.Fail("base is " + std::to_string(base) + "; expected more than 1.");
  }
  draw.attributes.Set("min", minVal).Set("max", maxVal).Set("base", base);
  return draw.Add("poprand::logUniform", reference, outType, prog);
}

Tensor dropout(Graph& graph, const Tensor* seed, const uint32_t seedModifier, const Tensor& input,
               const Tensor& reference, double keepProbability, double scale, bool outputClonesRef,
               Sequence& prog, const DebugContext& debugContext) {
  Draw draw("poprand::dropout", graph, seed, seedModifier, debugContext);
  draw.site.CheckShape("reference", reference, input.shape());
  return AddDropout(&draw, input, reference, outputClonesRef ? reference : input, keepProbability,
                    scale, prog);
}

Tensor dropout(Graph& graph, const Tensor* seed, const uint32_t seedModifier, const Tensor& input,
               const Tensor& reference, double keepProbability, double scale, Sequence& prog,
               const DebugContext& debugContext) {
  return dropout(graph, seed, seedModifier, input, reference, keepProbability, scale, true, prog,
                 debugContext);
}

Tensor shapedDropout(Graph& graph, const Tensor* seed, const uint32_t seedModifier,
                     const Tensor& input, const Tensor& reference, double keepProbability,
                     double scale, Sequence& prog, const DebugContext& debugContext) {
  Draw draw("poprand::shapedDropout", graph, seed, seedModifier, debugContext);
  if (!Broadcasts(reference.shape(), input.shape())) {
    draw.site.Fail("reference has shape " + reference.shapeToString() +
                   ", which cannot be broadcast to that of input, " + input.shapeToString() + ".");
  }
  return AddDropout(&draw, input, reference, input, keepProbability, scale, prog);
}

void setSeed(Graph& graph, const Tensor& masterSeed, uint32_t seedModifier, Sequence& prog,
             const DebugContext& debugContext) {
  const CallSite site("poprand::setSeed", graph, debugContext);
  site.CheckType("masterSeed", masterSeed, poplar::UNSIGNED_INT);
  site.CheckShape("masterSeed", masterSeed, {2});
  site.Add(prog, "poprand::setSeed", Attributes().Set("modifier", seedModifier), {masterSeed},
           {StateOf(graph)});
}

}  // namespace poprand
