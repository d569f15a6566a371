// Mappings of tensors to tiles.
#ifndef poputil_TileMapping_hpp
#define poputil_TileMapping_hpp

#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>

#include <vector>

namespace poputil {

/// The mapping that `mapTensorLinearly` sets: equal runs of whole grains over the tiles.
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(
    const poplar::Graph &graph, std::vector<std::size_t> shape, unsigned minElementsPerTile,
    unsigned grainSize, unsigned offset = 0, bool ascendingOrder = true);
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph &graph,
                                                                 const poplar::Tensor &tensor,
                                                                 unsigned offset = 0,
                                                                 bool ascendingOrder = true);

/// Maps the elements of a tensor in row-major order over the tiles, at least
/// `minElementsPerTile` and whole grains to each; by default at least 128 bytes and whole vectors.
void mapTensorLinearly(poplar::Graph &graph, const poplar::Tensor &tensor,
                       unsigned minElementsPerTile, unsigned grainSize);
void mapTensorLinearly(poplar::Graph &graph, const poplar::Tensor &tensor);

/// The same from a tile on, upwards or downwards.
void mapTensorLinearlyWithOffset(poplar::Graph &graph, const poplar::Tensor &tensor,
                                 unsigned minElementsPerTile, unsigned grainSize, unsigned offset,
                                 bool ascendingOrder = true);
void mapTensorLinearlyWithOffset(poplar::Graph &graph, const poplar::Tensor &tensor,
                                 unsigned offset = 0, bool ascendingOrder = true);

}  // namespace poputil

#endif  // poputil_TileMapping_hpp
