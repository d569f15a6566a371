#include "poplin/Norms.hpp"

#include "poplin/normalization.h"

namespace poplin {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::CallSite;

namespace {

Tensor Param(const char* function, Graph& graph, const Tensor& acts, const Type& type,
             const char* name, const DebugContext& debug) {
  const CallSite site(function, graph, debug);
  if (acts.rank() < 2) {
    site.Fail("acts have shape " + acts.shapeToString() +
              "; expected {batch, channels, field...}.");
  }
  return site.NewTensor(type, {acts.dim(1)}, name);
}

}  // namespace

Tensor createNormGamma(Graph& graph, const Tensor& acts, const Type& type,
                       const DebugContext& debugContext) {
  return Param("poplin::createNormGamma", graph, acts, type, "gamma", debugContext);
}

Tensor createNormGamma(Graph& graph, const Tensor& acts, const DebugContext& debugContext) {
  return createNormGamma(graph, acts, acts.elementType(), debugContext);
}

Tensor createNormBeta(Graph& graph, const Tensor& acts, const Type& type,
                      const DebugContext& debugContext) {
  return Param("poplin::createNormBeta", graph, acts, type, "beta", debugContext);
}

Tensor createNormBeta(Graph& graph, const Tensor& acts, const DebugContext& debugContext) {
  return createNormBeta(graph, acts, acts.elementType(), debugContext);
}

std::pair<Tensor, Tensor> createNormParams(Graph& graph, const Tensor& acts,
                                           const DebugContext& debugContext) {
  return {createNormGamma(graph, acts, debugContext), createNormBeta(graph, acts, debugContext)};
}

std::pair<Tensor, Tensor> normStatistics(Graph& graph, const Tensor& actsUngrouped, float eps,
                                         Sequence& prog, bool unbiasedVarEstimate, bool,
                                         const Type&, const DebugContext& debugContext) {
  const CallSite site("poplin::normStatistics", graph, debugContext);
  const Statistics statistics =
      Normalization(site, prog, {}).StatisticsOf(actsUngrouped, eps, unbiasedVarEstimate);
  return {statistics.mean, statistics.inverse_deviation};
}

std::pair<Tensor, Tensor> distributedNormStatistics(Graph& replicatedGraph,
                                                    const Tensor& actsUngrouped, float eps,
                                                    Sequence& prog, bool unbiasedVarEstimate,
                                                    DistributedNormReduceCallback allReduceCallback,
                                                    unsigned normSize, bool, const Type&,
                                                    const DebugContext& debugContext) {
  const CallSite site("poplin::distributedNormStatistics", replicatedGraph, debugContext);
  const Statistics statistics = Normalization(site, prog, {})
                                    .DistributedStatistics(actsUngrouped, eps, unbiasedVarEstimate,
                                                           allReduceCallback, normSize);
  return {statistics.mean, statistics.inverse_deviation};
}

Tensor normWhiten(Graph& graph, const Tensor& acts, const Tensor& mean, const Tensor& iStdDev,
                  Sequence& prog, const DebugContext& debugContext) {
  const CallSite site("poplin::normWhiten", graph, debugContext);
  return Normalization(site, prog, {}).Whiten(acts, {mean, iStdDev});
}

Tensor normalise(Graph& graph, const Tensor& actsWhitened, const Tensor& gamma, const Tensor& beta,
                 Sequence& prog, const DebugContext& debugContext) {
  const CallSite site("poplin::normalise", graph, debugContext);
  return Normalization(site, prog, {}).Scale(actsWhitened, gamma, beta);
}

std::pair<Tensor, Tensor> normParamGradients(Graph& graph, const Tensor& actsWhitened,
                                             const Tensor& gradsIn, Sequence& prog, const Type&,
                                             const DebugContext& debugContext) {
  const CallSite site("poplin::normParamGradients", graph, debugContext);
  return Normalization(site, prog, {}).ParamGradients(actsWhitened, gradsIn);
}

Tensor normGradients(Graph& graph, const Tensor& gradsIn, const Tensor& gamma, Sequence& prog,
                     const DebugContext& debugContext) {
  const CallSite site("poplin::normGradients", graph, debugContext);
  return Normalization(site, prog, {}).Scale(gradsIn, gamma, Tensor());
}

Tensor normStatisticsGradients(Graph& graph, const Tensor& actsWhitened, const Tensor& gradsIn,
                               const Tensor& invStdDev, Sequence& prog, const Type&,
                               const DebugContext& debugContext) {
  const CallSite site("poplin::normStatisticsGradients", graph, debugContext);
  return Normalization(site, prog, {}).Gradients(actsWhitened, gradsIn, invStdDev);
}

Tensor distributedNormStatisticsGradients(Graph& replicatedGraph, const Tensor& actsWhitened,
                                          const Tensor& gradsIn, const Tensor& invStdDev,
                                          Sequence& prog,
                                          poplin::DistributedNormReduceCallback reduceCallback,
                                          unsigned normSize, const Type&,
                                          const DebugContext& debugContext) {
  const CallSite site("poplin::distributedNormStatisticsGradients", replicatedGraph, debugContext);
  return Normalization(site, prog, {})
      .Gradients(actsWhitened, gradsIn, invStdDev, reduceCallback, normSize);
}

}  // namespace poplin
