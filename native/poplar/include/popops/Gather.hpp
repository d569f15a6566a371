// Slices that are collected by tensors of indices.
#ifndef popops_Gather_hpp
#define popops_Gather_hpp

#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <cstddef>
#include <vector>

namespace popops {

struct GatherParams {
  GatherParams() : maxElementsPerTile(65535) {}
  explicit GatherParams(std::size_t maxElementsPerTile) : maxElementsPerTile(maxElementsPerTile) {}

  /// Of the layout of the input.
  std::size_t maxElementsPerTile;
};

/// A tensor for the input of `gather`.
poplar::Tensor createGatherInput(poplar::Graph &graph, const poplar::Type &type,
                                 const std::vector<std::size_t> &operandShape, unsigned axis,
                                 GatherParams params = GatherParams(),
                                 const poplar::DebugContext &debugContext = {});
poplar::Tensor createGatherInput(poplar::Graph &graph, const poplar::Type &type,
                                 const std::vector<std::size_t> &inputShape,
                                 const std::vector<std::size_t> &sliceSizes,
                                 std::vector<unsigned> startIndexMap,
                                 const poplar::DebugContext &debugContext = {});

/// The elements of dimension `axis` at the indices, which stand in its place. An index beyond the
/// dimension gives the last element.
poplar::Tensor gather(poplar::Graph &graph, const poplar::Tensor &input,
                      const poplar::Tensor &indices, unsigned axis, poplar::program::Sequence &prog,
                      GatherParams params, const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &optionFlags = {});
/// The gather of XLA.
poplar::Tensor gather(poplar::Graph &graph, const poplar::Tensor &input,
                      const poplar::Tensor &indices, std::size_t indexVectorDim,
                      const std::vector<std::size_t> &offsetDims,
                      const std::vector<std::size_t> &sliceSizes,
                      const std::vector<std::size_t> &collapsedSliceDims,
                      const std::vector<unsigned> &startIndexMap, poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &optionFlags = {});

}  // namespace popops

#endif  // popops_Gather_hpp
