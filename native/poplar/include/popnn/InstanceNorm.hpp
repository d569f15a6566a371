// Instance normalization of activations {batch, channels, field...}, and its gradients.
#ifndef popnn_InstanceNorm_hpp
#define popnn_InstanceNorm_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <cstdint>
#include <utility>

namespace popnn {
namespace in {

/// Mean and 1 / sqrt(variance + eps) of each channel of each image.
std::pair<poplar::Tensor, poplar::Tensor> instanceNormStatistics(
    poplar::Graph &graph, const poplar::Tensor acts, float eps, poplar::program::Sequence &prog,
    bool unbiasedVarEstimate, bool stableAlgo, const poplar::Type &partialsType = poplar::FLOAT,
    const poplar::DebugContext &debugContext = {}, const poplar::OptionFlags &options = {});

/// (acts - mean) * invStdDev.
poplar::Tensor instanceNormWhiten(poplar::Graph &graph, const poplar::Tensor &acts,
                                  const poplar::Tensor &mean, const poplar::Tensor &invStdDev,
                                  poplar::program::Sequence &prog,
                                  const poplar::DebugContext &debugContext = {},
                                  const poplar::OptionFlags &options = {});

/// The whitened activations times gamma plus beta, and the whitened ones.
std::pair<poplar::Tensor, poplar::Tensor> instanceNormalise(
    poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &gamma,
    const poplar::Tensor &beta, const poplar::Tensor &mean, const poplar::Tensor &invStdDev,
    poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});

/// The gradients of gamma and beta.
std::pair<poplar::Tensor, poplar::Tensor> instanceNormParamGradients(
    poplar::Graph &graph, const poplar::Tensor &acts, const poplar::Tensor &gradsIn,
    const poplar::Tensor &mean, const poplar::Tensor &iStdDev, poplar::program::Sequence &prog,
    const poplar::Type &partialsType = poplar::FLOAT, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});
std::pair<poplar::Tensor, poplar::Tensor> instanceNormParamGradients(
    poplar::Graph &graph, const poplar::Tensor &actsWhitened, const poplar::Tensor &gradsIn,
    poplar::program::Sequence &prog, const poplar::Type &partialsType = poplar::FLOAT,
    const poplar::DebugContext &debugContext = {}, const poplar::OptionFlags &options = {});

/// The gradient of the activations.
poplar::Tensor instanceNormGradients(poplar::Graph &graph, const poplar::Tensor &acts,
                                     const poplar::Tensor &gradsIn, const poplar::Tensor &mean,
                                     const poplar::Tensor &invStdDev, const poplar::Tensor &gamma,
                                     poplar::program::Sequence &prog,
                                     const poplar::Type &partialsType = poplar::FLOAT,
                                     const poplar::DebugContext &debugContext = {},
                                     const poplar::OptionFlags &options = {});
poplar::Tensor instanceNormGradients(poplar::Graph &graph, const poplar::Tensor &actsWhitened,
                                     const poplar::Tensor &gradsIn, const poplar::Tensor &invStdDev,
                                     const poplar::Tensor &gamma, poplar::program::Sequence &prog,
                                     const poplar::Type &partialsType = poplar::FLOAT,
                                     const poplar::DebugContext &debugContext = {},
                                     const poplar::OptionFlags &options = {});

/// Adds scale times the deltas to gamma and beta.
void instanceNormParamUpdate(poplar::Graph &graph, const poplar::Tensor &gammaDelta,
                             const poplar::Tensor &betaDelta, float scale, poplar::Tensor &gamma,
                             poplar::Tensor &beta, poplar::program::Sequence &prog,
                             const poplar::DebugContext &debugContext = {},
                             const poplar::OptionFlags &options = {});
void instanceNormParamUpdate(poplar::Graph &graph, const poplar::Tensor &gammaDelta,
                             const poplar::Tensor &betaDelta, const poplar::Tensor &scale,
                             poplar::Tensor &gamma, poplar::Tensor &beta,
                             poplar::program::Sequence &prog,
                             const poplar::DebugContext &debugContext = {},
                             const poplar::OptionFlags &options = {});

/// Operations of the passes.
std::uint64_t getFwdFlops(std::uint64_t numChannels, std::uint64_t actsPerChannel,
                          bool computeEstimates);
std::uint64_t getBwdFlops(std::uint64_t numChannels, std::uint64_t actsPerChannel);
std::uint64_t getWuFlops(std::uint64_t numChannels, std::uint64_t actsPerChannel);

}  // namespace in
}  // namespace popnn

#endif  // popnn_InstanceNorm_hpp
