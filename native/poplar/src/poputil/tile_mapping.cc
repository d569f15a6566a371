#include "poputil/TileMapping.hpp"

#include <algorithm>

namespace poputil {

using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;

namespace {

constexpr unsigned kBytesOfATile = 128;  // at least

unsigned DivideUp(uint64_t a, uint64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

unsigned DefaultGrain(const Graph& graph, const Tensor& tensor) {
  return std::max(1u, graph.getTarget().getVectorWidth(tensor.elementType()));
}

unsigned DefaultElements(const Graph& graph, const Tensor& tensor) {
  return DivideUp(kBytesOfATile, graph.getTarget().getTypeSize(tensor.elementType()));
}

}  // namespace

std::vector<std::vector<Interval>> calcLinearTileMapping(const Graph& graph,
                                                         std::vector<size_t> shape,
                                                         unsigned minElementsPerTile,
                                                         unsigned grainSize, unsigned offset,
                                                         bool ascendingOrder) {
  const unsigned tiles = graph.getTarget().getNumTiles();
  std::vector<std::vector<Interval>> mapping(tiles);
  uint64_t elements = 1;
  for (const size_t size : shape) elements *= size;
  if (elements == 0) return mapping;
  const uint64_t grains = DivideUp(elements, grainSize);
  const uint64_t least = std::max(1u, DivideUp(minElementsPerTile, grainSize));
  const uint64_t most_parts = std::max<uint64_t>(1, grains / least);
  const uint64_t largest = std::max(DivideUp(grains, tiles), DivideUp(grains, most_parts));
  const uint64_t parts = DivideUp(grains, largest);
  for (uint64_t i = 0; i < parts; ++i) {
    const uint64_t begin = i * grains / parts * grainSize;
    const uint64_t end = std::min<uint64_t>(elements, (i + 1) * grains / parts * grainSize);
    const uint64_t place = (offset + i) % tiles;
    mapping[ascendingOrder ? place : tiles - 1 - place].push_back(Interval(begin, end));
  }
  return mapping;
}

std::vector<std::vector<Interval>> calcLinearTileMapping(const Graph& graph, const Tensor& tensor,
                                                         unsigned offset, bool ascendingOrder) {
  return calcLinearTileMapping(graph, tensor.shape(), DefaultElements(graph, tensor),
                               DefaultGrain(graph, tensor), offset, ascendingOrder);
}

void mapTensorLinearly(Graph& graph, const Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize) {
  mapTensorLinearlyWithOffset(graph, tensor, minElementsPerTile, grainSize, 0);
}

void mapTensorLinearly(Graph& graph, const Tensor& tensor) {
  mapTensorLinearlyWithOffset(graph, tensor);
}

void mapTensorLinearlyWithOffset(Graph& graph, const Tensor& tensor, unsigned minElementsPerTile,
                                 unsigned grainSize, unsigned offset, bool ascendingOrder) {
  graph.setTileMapping(tensor, calcLinearTileMapping(graph, tensor.shape(), minElementsPerTile,
                                                     grainSize, offset, ascendingOrder));
}

void mapTensorLinearlyWithOffset(Graph& graph, const Tensor& tensor, unsigned offset,
                                 bool ascendingOrder) {
  graph.setTileMapping(tensor, calcLinearTileMapping(graph, tensor, offset, ascendingOrder));
}

}  // namespace poputil
