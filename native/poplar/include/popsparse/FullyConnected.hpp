// Layers with sparse weights, forward and backward.
#ifndef popsparse_FullyConnected_hpp
#define popsparse_FullyConnected_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popsparse/FullyConnectedParams.hpp>
#include <popsparse/PlanningCache.hpp>
#include <popsparse/SparsePartitioner.hpp>
#include <popsparse/SparseTensor.hpp>

#include <tuple>

namespace popsparse {
namespace dynamic {

/// The weights {output channels, input channels}.
SparseTensor createFullyConnectedWeights(poplar::Graph &graph, const poplar::Type &inputType,
                                         const FullyConnectedParams &params,
                                         const poplar::DebugContext &debugContext = {},
                                         const poplar::OptionFlags &options = {},
                                         PlanningCache *cache = nullptr);
/// Activations {batch, input channels}.
poplar::Tensor createFullyConnectedInput(poplar::Graph &graph, const poplar::Type &inputType,
                                         const FullyConnectedParams &params,
                                         const poplar::DebugContext &debugContext = {},
                                         const poplar::OptionFlags &options = {},
                                         PlanningCache *cache = nullptr);

/// The result {batch, output channels}.
poplar::Tensor fullyConnectedFwd(poplar::Graph &graph, const SparseTensor &weights,
                                 const poplar::Tensor &activations,
                                 const FullyConnectedParams &fcParams,
                                 poplar::program::Sequence &prog,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {},
                                 PlanningCache *cache = nullptr);
/// The gradient of the activations.
poplar::Tensor fullyConnectedGradA(poplar::Graph &graph, const SparseTensor &weights,
                                   const poplar::Tensor &gradients,
                                   const FullyConnectedParams &fcParams,
                                   poplar::program::Sequence &prog,
                                   const poplar::DebugContext &debugContext = {},
                                   const poplar::OptionFlags &options = {},
                                   PlanningCache *cache = nullptr);
/// The gradient of the weights that are not zero, in the order of the weights' values.
poplar::Tensor fullyConnectedSparseGradW(
    poplar::Graph &graph, const poplar::Tensor sparsityMetaInfo, const poplar::Tensor &gradA,
    const poplar::Tensor &activations, const FullyConnectedParams &fcParams,
    poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr);

/// In how many steps a dense gradient is computed, by batch, input and output channels: one.
std::tuple<unsigned, unsigned, unsigned> fullyConnectedDenseGradWSerialSplits(
    const poplar::Graph &graph, const poplar::Type &inputType, const FullyConnectedParams &fcParams,
    const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr);

}  // namespace dynamic
}  // namespace popsparse

#endif  // popsparse_FullyConnected_hpp
