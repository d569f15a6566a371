// Mappings by use.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "poplar/access.h"
#include "poplar/graph_data.h"
#include "poputil/TileMapping.hpp"
#include "poputil/call.h"

namespace poputil {

using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::core::Access;

// The tiles that use the elements of each variable: each entry holds up to the next.
class TensorUseTrackerState {
 public:
  using Tiles = std::set<unsigned>;

  explicit TensorUseTrackerState(unsigned num_tiles) : num_tiles_(num_tiles) {}

  void Add(unsigned tile, uint32_t variable, size_t begin, size_t end) {
    if (tile >= num_tiles_) {
      throw poplibs_error("poputil::TensorUseTracker::add: tile " + std::to_string(tile) +
                          " is none of the " + std::to_string(num_tiles_) + ".");
    }
    auto& uses = uses_[variable];
    if (uses.empty()) uses[0];
    Cut(&uses, begin);
    Cut(&uses, end);
    for (auto it = uses.find(begin); it != uses.end() && it->first < end; ++it) {
      it->second.insert(tile);
    }
  }

  void Add(const TensorUseTrackerState& other) {
    for (const auto& [variable, uses] : other.uses_) {
      for (auto it = uses.begin(); it != uses.end(); ++it) {
        const auto next = std::next(it);
        if (next == uses.end()) continue;
        for (const unsigned tile : it->second) Add(tile, variable, it->first, next->first);
      }
    }
  }

  bool empty() const { return uses_.empty(); }

  void Map(Graph& graph, unsigned grain, unsigned least, bool extends) const {
    for (const auto& [variable, uses] : uses_) {
      const auto& data = Access::Data(graph)->variables[variable];
      const Tensor whole = Access::MakeTensor(poplar::core::WholeVariable(
          Access::Data(graph), variable, data.type, {static_cast<size_t>(data.count)}));
      const Tiles* last = nullptr;
      for (auto it = uses.begin(); it != uses.end(); ++it) {
        const size_t begin = it->first;
        const size_t end = std::next(it) == uses.end() ? whole.numElements() : std::next(it)->first;
        const Tiles* tiles = &it->second;
        if (tiles->empty() && extends) tiles = last != nullptr ? last : FirstUse(uses);
        if (!tiles->empty()) {
          Spread(graph, whole.slice(begin, end), *tiles, grain, least);
          last = tiles;
        }
      }
    }
  }

 private:
  static void Cut(std::map<size_t, Tiles>* uses, size_t at) {
    const auto it = std::prev(uses->upper_bound(at));
    if (it->first != at) uses->emplace(at, it->second);
  }

  static const Tiles* FirstUse(const std::map<size_t, Tiles>& uses) {
    for (const auto& use : uses) {
      if (!use.second.empty()) return &use.second;
    }
    return &uses.begin()->second;
  }

  // Equal parts of whole grains for tiles that use the same elements.
  static void Spread(Graph& graph, const Tensor& elements, const Tiles& tiles, unsigned grain,
                     unsigned least) {
    const size_t count = elements.numElements();
    if (count == 0) return;
    const size_t grains = (count + grain - 1) / grain;
    const size_t most = std::max<size_t>(1, count / std::max(1u, least));
    const size_t parts = std::min({grains, tiles.size(), most});
    auto tile = tiles.begin();
    for (size_t i = 0; i < parts; ++i, ++tile) {
      const size_t begin = i * grains / parts * grain;
      const size_t end = std::min(count, (i + 1) * grains / parts * grain);
      graph.setTileMapping(elements.slice(begin, end), *tile);
    }
  }

  unsigned num_tiles_;
  std::map<uint32_t, std::map<size_t, Tiles>> uses_;
};

TensorUseTracker::TensorUseTracker(unsigned numTiles)
    : state_(new TensorUseTrackerState(numTiles)) {}
TensorUseTracker::TensorUseTracker(const TensorUseTracker& other)
    : state_(new TensorUseTrackerState(*other.state_)) {}
TensorUseTracker::TensorUseTracker(TensorUseTracker&& other) = default;
TensorUseTracker& TensorUseTracker::operator=(const TensorUseTracker& other) {
  *state_ = *other.state_;
  return *this;
}
TensorUseTracker& TensorUseTracker::operator=(TensorUseTracker&& other) = default;
TensorUseTracker::~TensorUseTracker() = default;

void TensorUseTracker::add(const Graph&, unsigned tile, const Tensor& tensor) {
  for (const poplar::VariableInterval& region : tensor.getVarRegions()) {
    state_->Add(tile, region.var.id, region.interval.begin(), region.interval.end());
  }
}

void TensorUseTracker::add(TensorUseTracker other) { state_->Add(*other.state_); }

void TensorUseTracker::mapTensorsByUse(Graph& graph, unsigned grainSize,
                                       unsigned minElementsPerTile, bool extendPartialUsage,
                                       MappingMethod) {
  state_->Map(graph, std::max(1u, grainSize), minElementsPerTile, extendPartialUsage);
}

bool TensorUseTracker::empty() const { return state_->empty(); }

}  // namespace poputil
