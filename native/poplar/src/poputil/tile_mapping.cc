#include "poputil/TileMapping.hpp"

#include <algorithm>
#include <functional>

#include "poputil/call.h"

namespace poputil {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Target;
using poplar::Tensor;
using poplar::TensorCloneMethod;
using poplar::Type;
using poplar::program::Copy;
using poplar::program::Sequence;
using Mapping = Graph::TileToTensorMapping;

namespace {

constexpr unsigned kBytesOfATile = 128;  // at least

unsigned DivideUp(uint64_t a, uint64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

unsigned DefaultGrain(const Target& target, const Type& type) {
  return std::max(1u, target.getVectorWidth(type));
}

unsigned DefaultElements(const Target& target, const Type& type) {
  return DivideUp(kBytesOfATile, target.getTypeSize(type));
}

}  // namespace

Mapping calcLinearTileMapping(const Target& target, std::vector<size_t> shape,
                              unsigned minElementsPerTile, unsigned grainSize, unsigned offset,
                              bool ascendingOrder) {
  const unsigned tiles = target.getNumTiles();
  Mapping mapping(tiles);
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
    const unsigned tile =
        transformTileIndex(static_cast<unsigned>(i), tiles, offset % tiles, ascendingOrder);
    mapping[tile].push_back(Interval(begin, end));
  }
  return mapping;
}

Mapping calcLinearTileMapping(const Graph& graph, std::vector<size_t> shape,
                              unsigned minElementsPerTile, unsigned grainSize, unsigned offset,
                              bool ascendingOrder) {
  return calcLinearTileMapping(graph.getTarget(), std::move(shape), minElementsPerTile, grainSize,
                               offset, ascendingOrder);
}

Mapping calcLinearTileMapping(const Target& target, const std::vector<size_t> shape,
                              const Type& elementType, unsigned offset, bool ascendingOrder) {
  return calcLinearTileMapping(target, shape, DefaultElements(target, elementType),
                               DefaultGrain(target, elementType), offset, ascendingOrder);
}

Mapping calcLinearTileMapping(const Graph& graph, const Tensor& tensor, unsigned offset,
                              bool ascendingOrder) {
  return calcLinearTileMapping(graph.getTarget(), tensor.shape(), tensor.elementType(), offset,
                               ascendingOrder);
}

std::pair<Mapping, unsigned> calcLinearTileMappingAndNewOffset(const Graph& graph,
                                                               const Tensor& tensor,
                                                               unsigned offset) {
  Mapping mapping = calcLinearTileMapping(graph, tensor, offset);
  const auto used = std::count_if(mapping.begin(), mapping.end(),
                                  [](const std::vector<Interval>& m) { return !m.empty(); });
  const unsigned next = (offset + static_cast<unsigned>(used)) % graph.getTarget().getNumTiles();
  return {std::move(mapping), next};
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

size_t chooseMappingOffset(size_t numTiles, const std::vector<size_t>& shape) {
  return chooseMappingOffset(numTiles, shape, 0x9e3779b9);
}

size_t chooseMappingOffset(size_t numTiles, const std::vector<size_t>& shape, size_t seed) {
  for (const size_t size : shape) {
    seed ^= std::hash<size_t>()(size) + 0x9e3779b9 + (seed << 6) + (seed >> 2);
  }
  return seed % numTiles;
}

unsigned transformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending) {
  const unsigned place = (tile + offset) % numTiles;
  return ascending ? place : numTiles - 1 - place;
}

unsigned invTransformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending) {
  const unsigned place = ascending ? tile : numTiles - 1 - tile;
  return (place + numTiles - offset % numTiles) % numTiles;
}

unsigned getTileImbalance(const Mapping& mapping, unsigned minElementsPerTile, unsigned grainSize) {
  uint64_t fullest = 0, total = 0;
  for (const std::vector<Interval>& regions : mapping) {
    uint64_t elements = 0;
    for (const Interval& region : regions) elements += region.size();
    fullest = std::max(fullest, elements);
    total += elements;
  }
  if (mapping.empty()) return 0;
  uint64_t even = uint64_t{DivideUp(total, mapping.size())};
  even = uint64_t{DivideUp(std::max<uint64_t>(even, minElementsPerTile), grainSize)} * grainSize;
  return fullest > even ? static_cast<unsigned>(fullest - even) : 0;
}

unsigned getTileImbalance(const Graph& graph, const Tensor& tensor, unsigned minElementsPerTile,
                          unsigned grainSize) {
  return getTileImbalance(graph.getTileMapping(tensor), minElementsPerTile, grainSize);
}

namespace {

// Whether the slices of a dimension are in several parts of `tilesOfAPart` tiles.
bool IsSplit(const Graph& graph, const Tensor& tensor, unsigned dimension, unsigned tilesOfAPart,
             const char* function) {
  const Call call(function, DebugContext(poplar::SourceLocation()));
  call.Require(dimension < tensor.rank(), "dimension " + std::to_string(dimension) +
                                              " does not exist in shape " + TextOf(tensor.shape()) +
                                              ".");
  const Mapping mapping = graph.getTileMapping(tensor.dimRoll(dimension, tensor.rank() - 1));
  const size_t size = tensor.dim(dimension);
  std::vector<size_t> part_of(tensor.numElements());
  for (size_t tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval& region : mapping[tile]) {
      for (size_t i = region.begin(); i < region.end(); ++i) part_of[i] = tile / tilesOfAPart;
    }
  }
  for (size_t i = 0; i < part_of.size(); ++i) {
    if (part_of[i] != part_of[i / size * size]) return true;
  }
  return false;
}

}  // namespace

bool dimIsSplitOverTiles(const Graph& graph, const Tensor& tensor, unsigned dimension) {
  return IsSplit(graph, tensor, dimension, 1, "poputil::dimIsSplitOverTiles");
}

bool dimIsSplitOverIPUs(const Graph& graph, const Tensor& tensor, unsigned dimension) {
  return IsSplit(graph, tensor, dimension, graph.getTarget().getTilesPerIPU(),
                 "poputil::dimIsSplitOverIPUs");
}

Tensor createBroadcastOperand(Graph& graph, const Tensor& fullTensor, const Type& type,
                              unsigned dim, bool ditherMapping, const DebugContext& debugContext) {
  const Call call("poputil::createBroadcastOperand", debugContext);
  call.Require(dim < fullTensor.rank(), "dimension " + std::to_string(dim) +
                                            " does not exist in shape " +
                                            TextOf(fullTensor.shape()) + ".");
  const Tensor operand = graph.addVariable(type, {fullTensor.dim(dim)}, debugContext);
  if (ditherMapping || fullTensor.numElements() == 0) {
    const size_t offset = chooseMappingOffset(graph.getTarget().getNumTiles(), fullTensor.shape());
    mapTensorLinearlyWithOffset(graph, operand, static_cast<unsigned>(offset));
    return operand;
  }
  // The tiles of the first element of each slice.
  const Tensor slices = fullTensor.dimRoll(dim).flatten(1, fullTensor.rank());
  graph.setTileMapping(operand, graph.getTileMapping(slices.slice(0, 1, 1)));
  return operand;
}

Tensor cloneToGraph(Graph& srcGraph, Graph& dstGraph, const Tensor& tensor,
                    const DebugContext& debugContext, TensorCloneMethod method) {
  const Tensor clone = srcGraph.clone(tensor, debugContext, method);
  dstGraph.setTileMapping(clone, srcGraph.getTileMapping(tensor));
  return clone;
}

Tensor cloneToIpu(Graph& graph, const Tensor& tensor, unsigned dstIPU,
                  const DebugContext& debugContext, TensorCloneMethod method) {
  const Call call("poputil::cloneToIpu", debugContext);
  const unsigned ipus = graph.getTarget().getNumIPUs();
  call.Require(dstIPU < ipus, "there is no IPU " + std::to_string(dstIPU) + ": the target has " +
                                  std::to_string(ipus) + ".");
  const unsigned tiles = graph.getTarget().getTilesPerIPU();
  const Mapping mapping = graph.getTileMapping(tensor);
  Mapping moved(mapping.size());
  for (size_t tile = 0; tile < mapping.size(); ++tile) {
    auto& to = moved[dstIPU * tiles + tile % tiles];
    to.insert(to.end(), mapping[tile].begin(), mapping[tile].end());
  }
  const Tensor clone = graph.clone(tensor, debugContext, method);
  graph.setTileMapping(clone, moved);
  return clone;
}

Tensor copyToIpu(Graph& masterGraph, const Tensor& tensor, Sequence& prog, unsigned dstIPU,
                 const DebugContext& debugContext, TensorCloneMethod method) {
  const Tensor clone = cloneToIpu(masterGraph, tensor, dstIPU, debugContext, method);
  prog.add(Copy(tensor, clone, false, debugContext));
  return clone;
}

Tensor createIpuCopy(Graph& graph, const Tensor& tensor, unsigned dstIpu, Tensor& copySrc,
                     Tensor& copyDst, const DebugContext& debugContext, TensorCloneMethod method) {
  const Tensor clone = cloneToIpu(graph, tensor, dstIpu, debugContext, method);
  copySrc = tensor.flatten();
  copyDst = clone.flatten();
  return clone;
}

std::pair<Tensor, unsigned> cloneAndExpandAliasing(Graph& graph, const Tensor& tensor,
                                                   unsigned offset,
                                                   const DebugContext& debugContext) {
  const Tensor clone = graph.clone(tensor, debugContext, TensorCloneMethod::CREATE_NEW_ORDER);
  if (!tensor.containsAliases()) return {clone, offset};
  auto mapping = calcLinearTileMappingAndNewOffset(graph, clone, offset);
  graph.setTileMapping(clone, mapping.first);
  return {clone, mapping.second};
}

}  // namespace poputil
