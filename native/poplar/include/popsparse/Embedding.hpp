// Rows of sparse matrices.
#ifndef popsparse_Embedding_hpp
#define popsparse_Embedding_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popsparse/FullyConnectedParams.hpp>
#include <popsparse/PlanningCache.hpp>
#include <popsparse/SparseTensor.hpp>

#include <cstddef>

namespace popsparse {
namespace dynamic {

/// Indices {n}, and slices {n, input channels}.
poplar::Tensor createIndicesTensor(poplar::Graph &graph, const FullyConnectedParams &params,
                                   std::size_t numIndices, const poplar::OptionFlags &options = {},
                                   const poplar::DebugContext &debugContext = {});
poplar::Tensor createSliceTensor(poplar::Graph &graph, const poplar::Type &dataType,
                                 const FullyConnectedParams &params, std::size_t numIndices,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {},
                                 PlanningCache *cache = nullptr);

/// Rows of the matrix {output channels, input channels}, with zeros. An index that is no row gives
/// zeros.
poplar::Tensor embeddingSlice(poplar::Graph &graph, const SparseTensor &t,
                              const poplar::Tensor &indices, poplar::program::Sequence &prog,
                              const FullyConnectedParams &params,
                              const poplar::DebugContext &debugContext = {},
                              const poplar::OptionFlags &options = {},
                              PlanningCache *cache = nullptr);
/// Adds scale * slices to rows, where the matrix has values.
void embeddingUpdateAdd(poplar::Graph &graph, const SparseTensor &t, const poplar::Tensor &slices,
                        const poplar::Tensor &indices, const poplar::Tensor &scale,
                        poplar::program::Sequence &prog, const FullyConnectedParams &params,
                        const poplar::DebugContext &debugContext = {},
                        const poplar::OptionFlags &options = {}, PlanningCache *cache = nullptr);

}  // namespace dynamic
}  // namespace popsparse

#endif  // popsparse_Embedding_hpp
