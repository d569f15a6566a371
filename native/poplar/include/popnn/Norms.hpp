// Parameters and operations of normalizations.
#ifndef popnn_Norms_hpp
#define popnn_Norms_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace popnn {

/// Variables {channels} for activations {batch, channels, field...}.
poplar::Tensor createNormGamma(poplar::Graph &graph, const poplar::Tensor &acts,
                               const poplar::DebugContext &debugContext = {});
poplar::Tensor createNormBeta(poplar::Graph &graph, const poplar::Tensor &acts,
                              const poplar::DebugContext &debugContext = {});
std::pair<poplar::Tensor, poplar::Tensor> createNormParams(
    poplar::Graph &graph, const poplar::Tensor acts, const poplar::DebugContext &debugContext = {});

/// Operations of the passes.
std::uint64_t getNormFwdFlops(std::size_t statisticsSize, std::size_t numActsElements,
                              bool computeStats = true);
std::uint64_t getNormBwdFlops(std::size_t statisticsSize, std::size_t numActsElements);
std::uint64_t getNormWuFlops(std::size_t paramsSize, std::size_t numActsElements);

}  // namespace popnn

#endif  // popnn_Norms_hpp
