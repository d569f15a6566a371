// Tiles for transfers.
#ifndef gcl_TileAllocation_hpp
#define gcl_TileAllocation_hpp

#include <poplar/Graph.hpp>

#include <vector>

namespace gcl {

/// The least number of tiles of an IPU for transfers.
unsigned getMinIoTiles(const poplar::Graph &graph);

/// `count` tiles of an IPU from number `offset` on: lists of other numbers have other tiles.
std::vector<unsigned> perIPUTiles(const poplar::Graph &graph, unsigned offset, unsigned count,
                                  bool sorted = true, bool tilePairs = true);

}  // namespace gcl

#endif  // gcl_TileAllocation_hpp
