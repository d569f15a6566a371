// Mappings of tensors to tiles.
#ifndef poputil_TileMapping_hpp
#define poputil_TileMapping_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/TensorCloneMethod.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace poputil {

/// The mapping that `mapTensorLinearly` sets: equal runs of whole grains over the tiles.
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(
    const poplar::Graph &graph, std::vector<std::size_t> shape, unsigned minElementsPerTile,
    unsigned grainSize, unsigned offset = 0, bool ascendingOrder = true);
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(
    const poplar::Target &target, std::vector<std::size_t> shape, unsigned minElementsPerTile,
    unsigned grainSize, unsigned offset = 0, bool ascendingOrder = true);
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph &graph,
                                                                 const poplar::Tensor &tensor,
                                                                 unsigned offset = 0,
                                                                 bool ascendingOrder = true);
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(
    const poplar::Target &target, const std::vector<std::size_t> shape,
    const poplar::Type &elementType, unsigned offset = 0, bool ascendingOrder = true);
/// The same with the first tile after those of the mapping.
std::pair<poplar::Graph::TileToTensorMapping, unsigned> calcLinearTileMappingAndNewOffset(
    const poplar::Graph &graph, const poplar::Tensor &tensor, unsigned offset = 0);

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

/// A tile for a small tensor, by a hash of its shape.
std::size_t chooseMappingOffset(std::size_t numTiles, const std::vector<std::size_t> &shape);
std::size_t chooseMappingOffset(std::size_t numTiles, const std::vector<std::size_t> &shape,
                                std::size_t seed);
/// The tile of a linear index, from an offset on, upwards or downwards; and the inverse.
unsigned transformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending);
unsigned invTransformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending);

/// The elements that the fullest tile has above an even spread.
unsigned getTileImbalance(const poplar::Graph::TileToTensorMapping &mapping,
                          unsigned minElementsPerTile = 0, unsigned grainSize = 1);
unsigned getTileImbalance(const poplar::Graph &graph, const poplar::Tensor &tensor,
                          unsigned minElementsPerTile = 0, unsigned grainSize = 1);

/// Whether the slices of a dimension are on several tiles, or on several IPUs.
bool dimIsSplitOverTiles(const poplar::Graph &graph, const poplar::Tensor &tensor,
                         unsigned dimension);
bool dimIsSplitOverIPUs(const poplar::Graph &graph, const poplar::Tensor &tensor,
                        unsigned dimension);

/// A vector of the length of a dimension, mapped as the elements that it will be combined with.
poplar::Tensor createBroadcastOperand(poplar::Graph &graph, const poplar::Tensor &fullTensor,
                                      const poplar::Type &type, unsigned dim,
                                      bool ditherMapping = false,
                                      const poplar::DebugContext &debugContext = {});

/// A clone in another virtual graph, on its tiles of the same numbers.
poplar::Tensor cloneToGraph(
    poplar::Graph &srcGraph, poplar::Graph &dstGraph, const poplar::Tensor &tensor,
    const poplar::DebugContext &debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
/// A clone on another IPU, on the same tile within it.
poplar::Tensor cloneToIpu(
    poplar::Graph &graph, const poplar::Tensor &tensor, unsigned dstIPU,
    const poplar::DebugContext &debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
/// The same with a copy of the values in `prog`.
poplar::Tensor copyToIpu(
    poplar::Graph &masterGraph, const poplar::Tensor &tensor, poplar::program::Sequence &prog,
    unsigned dstIPU, const poplar::DebugContext &debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
/// The same with the two tensors that the caller has to copy.
poplar::Tensor createIpuCopy(
    poplar::Graph &graph, const poplar::Tensor &tensor, unsigned dstIpu, poplar::Tensor &copySrc,
    poplar::Tensor &copyDst, const poplar::DebugContext &debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES);
/// A clone in which shared elements are separate: these are mapped linearly from `offset` on.
/// Returns the next offset, too.
std::pair<poplar::Tensor, unsigned> cloneAndExpandAliasing(
    poplar::Graph &graph, const poplar::Tensor &tensor, unsigned offset = 0,
    const poplar::DebugContext &debugContext = {});

class TensorUseTrackerState;

/// Collects which tiles use which elements, and maps these accordingly.
class TensorUseTracker {
 public:
  enum class MappingMethod { None, OptimizeHaloRegions, ConstrainMappingToUsedTiles };

  explicit TensorUseTracker(unsigned numTiles);
  TensorUseTracker(const TensorUseTracker &other);
  TensorUseTracker(TensorUseTracker &&other);
  TensorUseTracker &operator=(const TensorUseTracker &other);
  TensorUseTracker &operator=(TensorUseTracker &&other);
  ~TensorUseTracker();

  void add(const poplar::Graph &graph, unsigned tile, const poplar::Tensor &tensor);
  void add(TensorUseTracker other);
  /// Elements that several tiles use are spread over these. With `extendPartialUsage`, elements of
  /// the same variables that nobody uses go to the tiles of their neighbors.
  void mapTensorsByUse(poplar::Graph &graph, unsigned grainSize, unsigned minElementsPerTile,
                       bool extendPartialUsage = false,
                       MappingMethod mappingMethod = MappingMethod::None);
  bool empty() const;

 private:
  std::unique_ptr<TensorUseTrackerState> state_;
};

}  // namespace poputil

#endif  // poputil_TileMapping_hpp
