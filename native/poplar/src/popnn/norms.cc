#include "popnn/Norms.hpp"

#include <algorithm>

#include "poplin/normalization.h"
#include "popnn/BatchNorm.hpp"
#include "popnn/GroupNorm.hpp"
#include "popnn/InstanceNorm.hpp"
#include "popnn/LayerNorm.hpp"

namespace popnn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::CallSite;

namespace {

constexpr const char* kStrided = "groupNormStridedChannelGrouping";

// A call of a normalization: checked options, and the parts that all kinds are made of.
class Norm {
 public:
  Norm(const char* function, Graph& graph, const DebugContext& debug, Sequence& prog,
       const OptionFlags& options, size_t groups)
      : site(function, graph, debug),
        parts(site, prog, {groups, Strided(function, options)}),
        prog_(prog) {}

  std::pair<Tensor, Tensor> StatisticsOf(const Tensor& acts, float eps, bool unbiased) const {
    const poplin::Statistics found = parts.StatisticsOf(acts, eps, unbiased);
    return {found.mean, found.inverse_deviation};
  }

  Tensor Gradients(const Tensor& whitened, const Tensor& gradients, const Tensor& deviation,
                   const Tensor& gamma) const {
    return parts.Gradients(whitened, parts.Scale(gradients, gamma, Tensor()), deviation);
  }

  void Update(const Tensor& gamma_delta, const Tensor& beta_delta, float factor,
              const Tensor& scale, const Tensor& gamma, const Tensor& beta) const {
    poplin::AddScaled(site, gamma, gamma_delta, factor, scale, prog_);
    poplin::AddScaled(site, beta, beta_delta, factor, scale, prog_);
  }

  const CallSite site;
  const poplin::Normalization parts;

 private:
  static bool Strided(const char* function, const OptionFlags& options) {
    poputil::CheckOptions(function, options, {{kStrided, {"true", "false"}}});
    const auto found = options.find(kStrided);
    return found == options.end() || found->second == "true";
  }

  Sequence& prog_;
};

size_t GroupsOf(const Tensor& acts, const Tensor& statistics) {
  return acts.rank() == 0 || acts.dim(0) == 0
             ? 1
             : std::max<size_t>(1, statistics.numElements() / acts.dim(0));
}

size_t ChannelsOf(const Tensor& acts) { return acts.rank() < 2 ? 1 : acts.dim(1); }

}  // namespace

Tensor createNormGamma(Graph& graph, const Tensor& acts, const DebugContext& debugContext) {
  return poplin::createNormGamma(graph, acts, debugContext);
}

Tensor createNormBeta(Graph& graph, const Tensor& acts, const DebugContext& debugContext) {
  return poplin::createNormBeta(graph, acts, debugContext);
}

std::pair<Tensor, Tensor> createNormParams(Graph& graph, const Tensor acts,
                                           const DebugContext& debugContext) {
  return poplin::createNormParams(graph, acts, debugContext);
}

// Additions and products of each element: sum, sum of squares (2), then whiten (2) and scale (2).
uint64_t getNormFwdFlops(size_t statisticsSize, size_t numActsElements, bool computeStats) {
  return 4 * numActsElements + (computeStats ? 3 * numActsElements + 4 * statisticsSize : 0);
}

// The gradient times gamma, two sums (3), and what they take from it (4).
uint64_t getNormBwdFlops(size_t statisticsSize, size_t numActsElements) {
  return 8 * numActsElements + 2 * statisticsSize;
}

// The two sums, and the update.
uint64_t getNormWuFlops(size_t paramsSize, size_t numActsElements) {
  return 3 * numActsElements + 2 * paramsSize;
}

namespace bn {

std::pair<Tensor, Tensor> batchNormStatistics(Graph& graph, const Tensor acts, float eps,
                                              Sequence& prog, bool unbiasedVarEstimate, bool,
                                              const Type&, const DebugContext& debugContext,
                                              const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormStatistics", graph, debugContext, prog, options, 0);
  return norm.StatisticsOf(acts, eps, unbiasedVarEstimate);
}

Tensor batchNormWhiten(Graph& graph, const Tensor& acts, const Tensor& mean,
                       const Tensor& invStdDev, Sequence& prog, const DebugContext& debugContext,
                       const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormWhiten", graph, debugContext, prog, options, 0);
  return norm.parts.Whiten(acts, {mean, invStdDev});
}

std::pair<Tensor, Tensor> batchNormalise(Graph& graph, const Tensor& acts, const Tensor& gamma,
                                         const Tensor& beta, const Tensor& mean,
                                         const Tensor& invStdDev, Sequence& prog,
                                         const DebugContext& debugContext,
                                         const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormalise", graph, debugContext, prog, options, 0);
  const Tensor whitened = norm.parts.Whiten(acts, {mean, invStdDev});
  return {norm.parts.Scale(whitened, gamma, beta), whitened};
}

Tensor batchNormalise(Graph& graph, const Tensor& acts, const Tensor& combinedMultiplicand,
                      const Tensor& addend, Sequence& prog, const DebugContext& debugContext,
                      const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormalise", graph, debugContext, prog, options, 0);
  return norm.parts.Scale(acts, combinedMultiplicand, addend);
}

std::pair<Tensor, Tensor> batchNormParamGradients(Graph& graph, const Tensor& acts,
                                                  const Tensor& gradsIn, const Tensor& mean,
                                                  const Tensor& iStdDev, Sequence& prog,
                                                  const Type&, const DebugContext& debugContext,
                                                  const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormParamGradients", graph, debugContext, prog, options, 0);
  return norm.parts.ParamGradients(norm.parts.Whiten(acts, {mean, iStdDev}), gradsIn);
}

std::pair<Tensor, Tensor> batchNormParamGradients(Graph& graph, const Tensor& actsWhitened,
                                                  const Tensor& gradsIn, Sequence& prog,
                                                  const Type&, const DebugContext& debugContext,
                                                  const OptionFlags& options) {
  // Sums by channel, whatever the groups.
  const Norm norm("popnn::bn::batchNormParamGradients", graph, debugContext, prog, options, 0);
  return norm.parts.ParamGradients(actsWhitened, gradsIn);
}

Tensor batchNormGradients(Graph& graph, const Tensor& acts, const Tensor& gradsIn,
                          const Tensor& mean, const Tensor& invStdDev, const Tensor& gamma,
                          Sequence& prog, const Type&, const DebugContext& debugContext,
                          const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormGradients", graph, debugContext, prog, options, 0);
  return norm.Gradients(norm.parts.Whiten(acts, {mean, invStdDev}), gradsIn, invStdDev, gamma);
}

Tensor batchNormGradients(Graph& graph, const Tensor& actsWhitened, const Tensor& gradsIn,
                          const Tensor& invStdDev, const Tensor& gamma, Sequence& prog, const Type&,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormGradients", graph, debugContext, prog, options, 0);
  return norm.Gradients(actsWhitened, gradsIn, invStdDev, gamma);
}

void batchNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                          float scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, scale, Tensor(), gamma, beta);
}

void batchNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                          const Tensor& scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::bn::batchNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, 1, scale, gamma, beta);
}

std::pair<Tensor, Tensor> distributedBatchNormStatistics(
    Graph& replicatedGraph, const Tensor acts, float eps, Sequence& prog, bool unbiasedVarEstimate,
    poplin::DistributedNormReduceCallback reduceCallback, unsigned normBatchSize, bool, const Type&,
    const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::bn::distributedBatchNormStatistics", replicatedGraph, debugContext, prog,
                  options, 0);
  const poplin::Statistics found = norm.parts.DistributedStatistics(acts, eps, unbiasedVarEstimate,
                                                                    reduceCallback, normBatchSize);
  return {found.mean, found.inverse_deviation};
}

Tensor distributedBatchNormGradients(Graph& replicatedGraph, const Tensor& actsWhitened,
                                     const Tensor& gradsIn, const Tensor& invStdDev,
                                     const Tensor& gamma, Sequence& prog,
                                     poplin::DistributedNormReduceCallback reduceCallback,
                                     unsigned normBatchSize, const Type&,
                                     const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::bn::distributedBatchNormGradients", replicatedGraph, debugContext, prog,
                  options, 0);
  return norm.parts.Gradients(actsWhitened, norm.parts.Scale(gradsIn, gamma, Tensor()), invStdDev,
                              reduceCallback, normBatchSize);
}

Tensor distributedBatchNormGradients(Graph& replicatedGraph, const Tensor& acts,
                                     const Tensor& gradsIn, const Tensor& mean,
                                     const Tensor& invStdDev, const Tensor& gamma, Sequence& prog,
                                     poplin::DistributedNormReduceCallback reduceCallback,
                                     unsigned normBatchSize, const Type& partialsType,
                                     const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::bn::distributedBatchNormGradients", replicatedGraph, debugContext, prog,
                  options, 0);
  return distributedBatchNormGradients(replicatedGraph, norm.parts.Whiten(acts, {mean, invStdDev}),
                                       gradsIn, invStdDev, gamma, prog, reduceCallback,
                                       normBatchSize, partialsType, debugContext, options);
}

}  // namespace bn

namespace gn {

std::pair<Tensor, Tensor> groupNormStatistics(Graph& graph, const Tensor acts, float eps,
                                              Sequence& prog, unsigned numGroups,
                                              bool unbiasedVarEstimate, bool, const Type&,
                                              const DebugContext& debugContext,
                                              const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormStatistics", graph, debugContext, prog, options, numGroups);
  return norm.StatisticsOf(acts, eps, unbiasedVarEstimate);
}

Tensor groupNormWhiten(Graph& graph, const Tensor& acts, const Tensor& mean,
                       const Tensor& invStdDev, Sequence& prog, const DebugContext& debugContext,
                       const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormWhiten", graph, debugContext, prog, options,
                  GroupsOf(acts, mean));
  return norm.parts.Whiten(acts, {mean, invStdDev});
}

std::pair<Tensor, Tensor> groupNormalise(Graph& graph, const Tensor& acts, const Tensor& gamma,
                                         const Tensor& beta, const Tensor& mean,
                                         const Tensor& invStdDev, Sequence& prog,
                                         const DebugContext& debugContext,
                                         const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormalise", graph, debugContext, prog, options,
                  GroupsOf(acts, mean));
  const Tensor whitened = norm.parts.Whiten(acts, {mean, invStdDev});
  return {norm.parts.Scale(whitened, gamma, beta), whitened};
}

std::pair<Tensor, Tensor> groupNormParamGradients(Graph& graph, const Tensor& acts,
                                                  const Tensor& gradsIn, const Tensor& mean,
                                                  const Tensor& iStdDev, Sequence& prog,
                                                  const Type&, const DebugContext& debugContext,
                                                  const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormParamGradients", graph, debugContext, prog, options,
                  GroupsOf(acts, mean));
  return norm.parts.ParamGradients(norm.parts.Whiten(acts, {mean, iStdDev}), gradsIn);
}

std::pair<Tensor, Tensor> groupNormParamGradients(Graph& graph, const Tensor& actsWhitened,
                                                  const Tensor& gradsIn, Sequence& prog,
                                                  const Type&, const DebugContext& debugContext,
                                                  const OptionFlags& options) {
  // Sums by channel, whatever the groups.
  const Norm norm("popnn::gn::groupNormParamGradients", graph, debugContext, prog, options, 0);
  return norm.parts.ParamGradients(actsWhitened, gradsIn);
}

Tensor groupNormGradients(Graph& graph, const Tensor& acts, const Tensor& gradsIn,
                          const Tensor& mean, const Tensor& invStdDev, const Tensor& gamma,
                          Sequence& prog, const Type&, const DebugContext& debugContext,
                          const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormGradients", graph, debugContext, prog, options,
                  GroupsOf(acts, mean));
  return norm.Gradients(norm.parts.Whiten(acts, {mean, invStdDev}), gradsIn, invStdDev, gamma);
}

Tensor groupNormGradients(Graph& graph, const Tensor& actsWhitened, const Tensor& gradsIn,
                          const Tensor& invStdDev, const Tensor& gamma, Sequence& prog, const Type&,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormGradients", graph, debugContext, prog, options,
                  GroupsOf(actsWhitened, invStdDev));
  return norm.Gradients(actsWhitened, gradsIn, invStdDev, gamma);
}

void groupNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                          float scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, scale, Tensor(), gamma, beta);
}

void groupNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                          const Tensor& scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::gn::groupNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, 1, scale, gamma, beta);
}

}  // namespace gn

namespace in {

std::pair<Tensor, Tensor> instanceNormStatistics(Graph& graph, const Tensor acts, float eps,
                                                 Sequence& prog, bool unbiasedVarEstimate, bool,
                                                 const Type&, const DebugContext& debugContext,
                                                 const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormStatistics", graph, debugContext, prog, options,
                  ChannelsOf(acts));
  return norm.StatisticsOf(acts, eps, unbiasedVarEstimate);
}

Tensor instanceNormWhiten(Graph& graph, const Tensor& acts, const Tensor& mean,
                          const Tensor& invStdDev, Sequence& prog, const DebugContext& debugContext,
                          const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormWhiten", graph, debugContext, prog, options,
                  ChannelsOf(acts));
  return norm.parts.Whiten(acts, {mean, invStdDev});
}

std::pair<Tensor, Tensor> instanceNormalise(Graph& graph, const Tensor& acts, const Tensor& gamma,
                                            const Tensor& beta, const Tensor& mean,
                                            const Tensor& invStdDev, Sequence& prog,
                                            const DebugContext& debugContext,
                                            const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormalise", graph, debugContext, prog, options,
                  ChannelsOf(acts));
  const Tensor whitened = norm.parts.Whiten(acts, {mean, invStdDev});
  return {norm.parts.Scale(whitened, gamma, beta), whitened};
}

std::pair<Tensor, Tensor> instanceNormParamGradients(Graph& graph, const Tensor& acts,
                                                     const Tensor& gradsIn, const Tensor& mean,
                                                     const Tensor& iStdDev, Sequence& prog,
                                                     const Type&, const DebugContext& debugContext,
                                                     const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormParamGradients", graph, debugContext, prog, options,
                  ChannelsOf(acts));
  return norm.parts.ParamGradients(norm.parts.Whiten(acts, {mean, iStdDev}), gradsIn);
}

std::pair<Tensor, Tensor> instanceNormParamGradients(Graph& graph, const Tensor& actsWhitened,
                                                     const Tensor& gradsIn, Sequence& prog,
                                                     const Type&, const DebugContext& debugContext,
                                                     const OptionFlags& options) {
  // Sums by channel, whatever the groups.
  const Norm norm("popnn::in::instanceNormParamGradients", graph, debugContext, prog, options, 0);
  return norm.parts.ParamGradients(actsWhitened, gradsIn);
}

Tensor instanceNormGradients(Graph& graph, const Tensor& acts, const Tensor& gradsIn,
                             const Tensor& mean, const Tensor& invStdDev, const Tensor& gamma,
                             Sequence& prog, const Type&, const DebugContext& debugContext,
                             const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormGradients", graph, debugContext, prog, options,
                  ChannelsOf(acts));
  return norm.Gradients(norm.parts.Whiten(acts, {mean, invStdDev}), gradsIn, invStdDev, gamma);
}

Tensor instanceNormGradients(Graph& graph, const Tensor& actsWhitened, const Tensor& gradsIn,
                             const Tensor& invStdDev, const Tensor& gamma, Sequence& prog,
                             const Type&, const DebugContext& debugContext,
                             const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormGradients", graph, debugContext, prog, options,
                  ChannelsOf(actsWhitened));
  return norm.Gradients(actsWhitened, gradsIn, invStdDev, gamma);
}

void instanceNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                             float scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                             const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, scale, Tensor(), gamma, beta);
}

void instanceNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                             const Tensor& scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                             const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::in::instanceNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, 1, scale, gamma, beta);
}

uint64_t getFwdFlops(uint64_t numChannels, uint64_t actsPerChannel, bool computeEstimates) {
  return getNormFwdFlops(numChannels, numChannels * actsPerChannel, computeEstimates);
}

uint64_t getBwdFlops(uint64_t numChannels, uint64_t actsPerChannel) {
  return getNormBwdFlops(numChannels, numChannels * actsPerChannel);
}

uint64_t getWuFlops(uint64_t numChannels, uint64_t actsPerChannel) {
  return getNormWuFlops(numChannels, numChannels * actsPerChannel);
}

}  // namespace in

namespace ln {

std::pair<Tensor, Tensor> layerNormStatistics(Graph& graph, const Tensor acts, float eps,
                                              Sequence& prog, bool unbiasedVarEstimate, bool,
                                              const Type&, const DebugContext& debugContext,
                                              const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormStatistics", graph, debugContext, prog, options, 1);
  return norm.StatisticsOf(acts, eps, unbiasedVarEstimate);
}

Tensor layerNormWhiten(Graph& graph, const Tensor& acts, const Tensor& mean,
                       const Tensor& invStdDev, Sequence& prog, const DebugContext& debugContext,
                       const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormWhiten", graph, debugContext, prog, options, 1);
  return norm.parts.Whiten(acts, {mean, invStdDev});
}

std::pair<Tensor, Tensor> layerNormalise(Graph& graph, const Tensor& acts, const Tensor& gamma,
                                         const Tensor& beta, const Tensor& mean,
                                         const Tensor& invStdDev, Sequence& prog,
                                         const DebugContext& debugContext,
                                         const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormalise", graph, debugContext, prog, options, 1);
  const Tensor whitened = norm.parts.Whiten(acts, {mean, invStdDev});
  return {norm.parts.Scale(whitened, gamma, beta), whitened};
}

std::pair<Tensor, Tensor> layerNormParamGradients(Graph& graph, const Tensor& acts,
                                                  const Tensor& gradsIn, const Tensor& mean,
                                                  const Tensor& iStdDev, Sequence& prog,
                                                  const Type&, const DebugContext& debugContext,
                                                  const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormParamGradients", graph, debugContext, prog, options, 1);
  return norm.parts.ParamGradients(norm.parts.Whiten(acts, {mean, iStdDev}), gradsIn);
}

std::pair<Tensor, Tensor> layerNormParamGradients(Graph& graph, const Tensor& actsWhitened,
                                                  const Tensor& gradsIn, Sequence& prog,
                                                  const Type&, const DebugContext& debugContext,
                                                  const OptionFlags& options) {
  // Sums by channel, whatever the groups.
  const Norm norm("popnn::ln::layerNormParamGradients", graph, debugContext, prog, options, 0);
  return norm.parts.ParamGradients(actsWhitened, gradsIn);
}

Tensor layerNormGradients(Graph& graph, const Tensor& acts, const Tensor& gradsIn,
                          const Tensor& mean, const Tensor& invStdDev, const Tensor& gamma,
                          Sequence& prog, const Type&, const DebugContext& debugContext,
                          const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormGradients", graph, debugContext, prog, options, 1);
  return norm.Gradients(norm.parts.Whiten(acts, {mean, invStdDev}), gradsIn, invStdDev, gamma);
}

Tensor layerNormGradients(Graph& graph, const Tensor& actsWhitened, const Tensor& gradsIn,
                          const Tensor& invStdDev, const Tensor& gamma, Sequence& prog, const Type&,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormGradients", graph, debugContext, prog, options, 1);
  return norm.Gradients(actsWhitened, gradsIn, invStdDev, gamma);
}

void layerNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                          float scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, scale, Tensor(), gamma, beta);
}

void layerNormParamUpdate(Graph& graph, const Tensor& gammaDelta, const Tensor& betaDelta,
                          const Tensor& scale, Tensor& gamma, Tensor& beta, Sequence& prog,
                          const DebugContext& debugContext, const OptionFlags& options) {
  const Norm norm("popnn::ln::layerNormParamUpdate", graph, debugContext, prog, options, 0);
  norm.Update(gammaDelta, betaDelta, 1, scale, gamma, beta);
}

}  // namespace ln

}  // namespace popnn
