#include "poplar/Graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "access.h"
#include "graph_data.h"
#include "target_data.h"
#include "types.h"
#include "view.h"

namespace poplar {

using core::Access;
using core::GraphData;
using core::Run;
using core::RunList;
using core::Variable;
using core::Vertex;
using core::View;

namespace core {

void TileMap::Set(uint64_t begin, uint64_t end, int64_t tile) {
  if (begin >= end) return;
  const int64_t after = std::prev(tiles_.upper_bound(end))->second;
  tiles_.erase(tiles_.lower_bound(begin), tiles_.lower_bound(end));
  if (end < count_) tiles_.emplace(end, after);
  const auto next = tiles_.lower_bound(begin);
  // Equal neighbors are one entry.
  if (next == tiles_.begin() || std::prev(next)->second != tile) tiles_[begin] = tile;
  const auto following = tiles_.find(end);
  if (following != tiles_.end() && following->second == tile) tiles_.erase(following);
}

}  // namespace core

namespace {

std::string Name(const DebugContext& context, const char* kind, size_t number) {
  const std::string path = context.getPathName();
  return path.empty() ? std::string(kind) + std::to_string(number) : path;
}

uint32_t AddVariable(GraphData* data, const Type& type, ArrayRef<size_t> shape,
                     const DebugContext& context, const char* kind) {
  if (type == Type() || type == LONG || type == UNSIGNED_LONG || type == DOUBLE) {
    throw tensor_creation_error(core::Prefix(context.location()) + "A tensor cannot be of type " +
                                type.toString().cloneAsString() + ".");
  }
  const uint32_t id = static_cast<uint32_t>(data->variables.size());
  const uint64_t count = core::CountOf(shape);
  data->variables.push_back(Variable{type,
                                     count,
                                     Name(context, kind, id),
                                     context.location(),
                                     false,
                                     {},
                                     core::TileMap(count),
                                     -1,
                                     false,
                                     nullptr});
  return id;
}

Tensor MakeTensor(GraphData* data, uint32_t id, const Type& type, ArrayRef<size_t> shape) {
  return Access::MakeTensor(core::WholeVariable(data, id, type, shape.cloneAsVector()));
}

// Sets the place of a run of elements.
void SetTile(GraphData* data, const Run& run, int64_t tile) {
  core::TileMap& tiles = data->variables[run.var].tiles;
  if (run.stride == 1 || run.stride == -1) {
    tiles.Set(run.Lowest(), run.Highest() + 1, tile);
  } else {
    for (uint64_t i = 0; i < run.count; ++i) tiles.Set(run.At(i), run.At(i) + 1, tile);
  }
}

}  // namespace

Graph::Graph() : Graph(Target()) {}

namespace {

// The part of a target that one replica has.
Target TargetOfReplica(const Target& target, unsigned replicas) {
  const unsigned ipus = target.getNumIPUs();
  if (replicas == 0 || ipus % replicas != 0) {
    throw graph_replication_error("The target has " + std::to_string(ipus) +
                                  " IPUs, which cannot be divided into " +
                                  std::to_string(replicas) + " replicas.");
  }
  return replicas == 1 ? target
                       : target.createVirtualTarget(ipus / replicas, target.getTilesPerIPU());
}

}  // namespace

Graph::Graph(const Target& target, replication_factor factor)
    : target_(TargetOfReplica(target, factor)) {
  data_ = std::make_shared<GraphData>(target_, factor);
}

Graph::Graph(const Device& device, replication_factor factor) : Graph(device.getTarget(), factor) {}

Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

const Target& Graph::getTarget() const { return target_; }
unsigned Graph::getReplicationFactor() const { return data_->replicas; }

// ---- codelets

namespace {

bool AddLibrary(GraphData* data, std::shared_ptr<const core::CodeletLibrary> library) {
  for (const auto& known : data->libraries) {
    if (known->path() == library->path()) return false;
  }
  for (const core::VertexType& type : library->types()) {
    data->vertex_types.emplace(type.name, &type);
  }
  data->libraries.push_back(std::move(library));
  return true;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

bool Graph::addCodelets(StringRef file, CodeletFileType type, StringRef compileFlags, StringRef) {
  const std::string path = file;
  const bool object =
      type == CodeletFileType::Object || (type == CodeletFileType::Auto && EndsWith(path, ".gp"));
  if (type == CodeletFileType::AsmSource || type == CodeletFileType::PreprocessedAsmSource ||
      EndsWith(path, ".S") || EndsWith(path, ".s")) {
    throw graph_program_compilation_error("'" + path +
                                          "' is assembly of the chip, which cannot run here.");
  }
  return AddLibrary(data_.get(), object ? core::CodeletLibrary::Load(path)
                                        : core::CodeletLibrary::Compile({path}, compileFlags));
}

void Graph::addCodelets(ArrayRef<std::string> files, StringRef compileFlags, StringRef) {
  for (const std::string& file : files) addCodelets(file, CodeletFileType::Auto, compileFlags);
}

void Graph::addCodelets(std::stringstream& source, StringRef compileFlags, CodeletFileType,
                        StringRef) {
  char path[] = "/tmp/codelets_XXXXXX.cpp";
  const int descriptor = mkstemps(path, 4);
  if (descriptor < 0) throw graph_object_creation_error("A file for codelets cannot be made.");
  std::ofstream(path) << source.str();
  try {
    AddLibrary(data_.get(), core::CodeletLibrary::Compile({path}, compileFlags));
  } catch (...) {
    std::remove(path);
    throw;
  }
  std::remove(path);
}

bool Graph::hasCodelet(StringRef vertexType) const {
  return data_->vertex_types.count(vertexType.cloneAsString()) > 0;
}

// ---- variables and constants

Tensor Graph::addVariable(const Type& type, ArrayRef<size_t> shape,
                          const DebugContext& debugContext) {
  const uint32_t id = AddVariable(data_.get(), type, shape, debugContext, "var");
  return MakeTensor(data_.get(), id, type, shape);
}

namespace {

// As poputil::mapTensorLinearly has it: whole vectors, 128 bytes a tile at least.
Graph::TileToTensorMapping LinearMapping(const Target& target, const Type& type, uint64_t count) {
  constexpr uint64_t kLeastBytes = 128;
  const uint64_t grain = std::max(1u, target.getVectorWidth(type));
  const uint64_t grains = (count + grain - 1) / grain;
  const uint64_t least = std::max<uint64_t>(1, kLeastBytes / core::SizeOf(type) / grain);
  const uint64_t most_tiles =
      std::min<uint64_t>(target.getNumTiles(), std::max<uint64_t>(1, grains / least));
  const uint64_t largest = std::max<uint64_t>(1, (grains + most_tiles - 1) / most_tiles);
  const uint64_t tiles = (grains + largest - 1) / largest;
  Graph::TileToTensorMapping mapping(target.getNumTiles());
  for (uint64_t i = 0; i < tiles; ++i) {
    const uint64_t begin = i * grains / tiles * grain;
    const uint64_t end = std::min(count, (i + 1) * grains / tiles * grain);
    mapping[i].push_back(Interval(begin, end));
  }
  return mapping;
}

}  // namespace

Tensor Graph::addVariable(const Type& type, ArrayRef<size_t> shape, VariableMappingMethod method,
                          const DebugContext& debugContext) {
  const Tensor tensor = addVariable(type, shape, debugContext);
  if (method == VariableMappingMethod::LINEAR) {
    setTileMapping(tensor, LinearMapping(target_, type, tensor.numElements()));
  }
  return tensor;
}

std::shared_ptr<const View> core::MetadataOf(const View& view) {
  if (view.type != QUARTER) return nullptr;
  std::shared_ptr<const View> metadata;
  bool first = true, equal = true;
  ForEachRun(view, [&](const Run& run) {
    const std::shared_ptr<const View>& of_run = view.graph->variables[run.var].metadata;
    equal = equal && (first || of_run == metadata);
    metadata = of_run;
    first = false;
  });
  return equal ? metadata : nullptr;
}

Tensor Graph::addVariable(const Type& type, const Tensor& metadata, ArrayRef<size_t> shape,
                          const DebugContext& debugContext) {
  const uint32_t id = AddVariable(data_.get(), type, shape, debugContext, "var");
  data_->variables[id].metadata = Access::View(metadata);
  return MakeTensor(data_.get(), id, type, shape);
}

Tensor Graph::addVariable(const Type& type, const Tensor& metadata, ArrayRef<size_t> shape,
                          VariableMappingMethod method, const DebugContext& debugContext) {
  const Tensor tensor = addVariable(type, shape, method, debugContext);
  data_->variables[Access::View(tensor)->strided.var].metadata = Access::View(metadata);
  return tensor;
}

void Graph::wrongCount(ArrayRef<size_t> shape, size_t count) {
  throw tensor_creation_error(std::to_string(count) + " values were given for a tensor of " +
                              std::to_string(core::CountOf(shape)) + " elements.");
}

Tensor Graph::addConstant(const Type& type, ArrayRef<size_t> shape, const void* values,
                          const TypeTraits&, const Type& from, bool broadcast,
                          const DebugContext& debugContext) {
  const uint32_t id = AddVariable(data_.get(), type, shape, debugContext, "const");
  Variable& variable = data_->variables[id];
  variable.constant = true;
  const size_t count = broadcast ? std::min<size_t>(1, variable.count) : variable.count;
  variable.initial.resize(count * core::SizeOf(type));
  core::Convert(from, values, type, variable.initial.data(), count);
  return MakeTensor(data_.get(), id, type, shape);
}

Tensor Graph::addConstantHalf(const Type& type, ArrayRef<size_t> shape, uint16_t value,
                              const DebugContext& debugContext) {
  return addConstant(type, shape, &value, TypeTraits(), HALF, true, debugContext);
}

Tensor Graph::addConstantHalf(const Type& type, ArrayRef<size_t> shape, const uint16_t* values,
                              const DebugContext& debugContext) {
  return addConstant(type, shape, values, TypeTraits(), HALF, false, debugContext);
}

namespace {

// The places of the elements of a view, of a new variable with as many.
void CopyMapping(GraphData* data, const View& from, uint32_t to) {
  uint64_t at = 0;
  core::ForEachRun(from, [&](const Run& run) {
    const core::TileMap& tiles = data->variables[run.var].tiles;
    core::TileMap& target = data->variables[to].tiles;
    if (run.stride == 1) {
      tiles.ForEach(run.begin, run.begin + run.count,
                    [&](uint64_t begin, uint64_t end, int64_t tile) {
                      target.Set(at + begin - run.begin, at + end - run.begin, tile);
                    });
    } else {
      for (uint64_t i = 0; i < run.count; ++i) {
        tiles.ForEach(run.At(i), run.At(i) + 1, [&](uint64_t, uint64_t, int64_t tile) {
          target.Set(at + i, at + i + 1, tile);
        });
      }
    }
    at += run.count;
  });
}

// A new variable for each that a view has, of those elements that it has, in their order in memory.
Tensor CloneInMemoryOrder(Graph* graph, GraphData* data, const Type& type, const View& view,
                          const DebugContext& context) {
  // Intervals of each variable, without repetitions.
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> parts;
  core::ForEachRun(view, [&](const Run& run) {
    if (run.stride == 1 || run.stride == -1) {
      parts[run.var].push_back({run.Lowest(), run.Highest() + 1});
    } else {
      for (uint64_t i = 0; i < run.count; ++i) parts[run.var].push_back({run.At(i), run.At(i) + 1});
    }
  });
  struct Part {
    int64_t begin, end;
    uint64_t at;
  };
  struct Clone {
    uint32_t id;
    std::vector<Part> parts;
  };
  std::map<uint32_t, Clone> clones;
  for (auto& [var, intervals] : parts) {
    std::sort(intervals.begin(), intervals.end());
    Clone clone{};
    uint64_t size = 0;
    for (const auto& [begin, end] : intervals) {
      if (!clone.parts.empty() && begin <= clone.parts.back().end) {
        const int64_t more = std::max<int64_t>(0, end - clone.parts.back().end);
        clone.parts.back().end += more;
        size += more;
      } else {
        clone.parts.push_back({begin, end, size});
        size += end - begin;
      }
    }
    const std::string path = context.getPathName();
    const std::string name = path.empty() ? data->variables[var].name : path;
    clone.id = Access::View(graph->addVariable(type, {size}, name))->strided.var;
    for (const Part& part : clone.parts) {
      data->variables[var].tiles.ForEach(
          part.begin, part.end, [&](uint64_t begin, uint64_t end, int64_t tile) {
            data->variables[clone.id].tiles.Set(part.at + begin - part.begin,
                                                part.at + end - part.begin, tile);
          });
    }
    clones[var] = std::move(clone);
  }
  RunList list;
  core::ForEachRun(view, [&](const Run& run) {
    const Clone& clone = clones[run.var];
    const auto part = std::prev(
        std::upper_bound(clone.parts.begin(), clone.parts.end(), run.Lowest(),
                         [](int64_t element, const Part& p) { return element < p.begin; }));
    const bool inside = run.Highest() < part->end;
    if (inside) {
      Run copy = run;
      copy.var = clone.id;
      copy.begin = static_cast<int64_t>(part->at) + run.begin - part->begin;
      list.Add(copy);
      return;
    }
    for (uint64_t i = 0; i < run.count; ++i) {
      const auto p = std::prev(
          std::upper_bound(clone.parts.begin(), clone.parts.end(), run.At(i),
                           [](int64_t element, const Part& q) { return element < q.begin; }));
      list.Add({clone.id, static_cast<int64_t>(p->at) + run.At(i) - p->begin, 1, 1});
    }
  });
  return Access::MakeTensor(core::Gathered(data, type, view.shape, std::move(list)));
}

}  // namespace

Tensor Graph::clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext,
                    TensorCloneMethod method) {
  const View& view = *Access::View(tensor);
  const bool fresh =
      method == TensorCloneMethod::CREATE_NEW_ORDER ||
      (method == TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES && tensor.containsAliases());
  const std::shared_ptr<const View> metadata = type == view.type ? core::MetadataOf(view) : nullptr;
  if (!fresh) {
    const Tensor result = CloneInMemoryOrder(this, data_.get(), type, view, debugContext);
    core::ForEachRun(*Access::View(result),
                     [&](const Run& run) { data_->variables[run.var].metadata = metadata; });
    return result;
  }
  const Tensor result = addVariable(type, view.shape, debugContext);
  const uint32_t id = Access::View(result)->strided.var;
  CopyMapping(data_.get(), view, id);
  data_->variables[id].metadata = metadata;
  return result;
}

Tensor Graph::clone(const Tensor& tensor, const DebugContext& debugContext,
                    TensorCloneMethod method) {
  return clone(tensor.elementType(), tensor, debugContext, method);
}

Tensor Graph::cloneN(const Type& type, const Tensor& tensor, size_t count,
                     const DebugContext& debugContext, TensorCloneMethod method,
                     TensorCloneDuplicationMethod) {
  std::vector<Tensor> clones;
  for (size_t i = 0; i < count; ++i) clones.push_back(clone(type, tensor, debugContext, method));
  return concat(clones);
}

Tensor Graph::cloneN(const Tensor& tensor, size_t count, const DebugContext& debugContext,
                     TensorCloneMethod method, TensorCloneDuplicationMethod duplication) {
  return cloneN(tensor.elementType(), tensor, count, debugContext, method, duplication);
}

void Graph::setInitialValue(const Tensor& tensor, const void* values, const Type& from,
                            bool broadcast) {
  const View& view = *Access::View(tensor);
  const size_t size = core::SizeOf(view.type), step = core::SizeOf(from);
  const char* source = static_cast<const char*>(values);
  core::ForEachRun(view, [&](const Run& run) {
    Variable& variable = data_->variables[run.var];
    if (variable.constant) {
      throw poplar_error("setInitialValue: '" + variable.name + "' is a constant.");
    }
    variable.initial.resize(std::max<size_t>(variable.initial.size(), variable.count * size));
    for (uint64_t i = 0; i < run.count; ++i) {
      core::Convert(from, source, view.type, variable.initial.data() + run.At(i) * size, 1);
      if (!broadcast) source += step;
    }
  });
}

void Graph::setInitialValueHalf(const Tensor& tensor, uint16_t value) {
  setInitialValue(tensor, &value, HALF, true);
}

void Graph::setInitialValueHalf(const Tensor& tensor, ArrayRef<uint16_t> values) {
  if (values.size() != tensor.numElements()) wrongCount(tensor.shape(), values.size());
  setInitialValue(tensor, values.data(), HALF, false);
}

Tensor Graph::getVariable(VariableRef variable) const {
  const Variable& data = data_->variables.at(variable.id);
  return MakeTensor(data_.get(), variable.id, data.type, {data.count});
}

bool Graph::isConstant(VariableRef variable) const {
  return data_->variables.at(variable.id).constant;
}

// ---- places

namespace {

unsigned PhysicalTile(const std::vector<unsigned>* tiles, const Target& target, unsigned tile) {
  const size_t count = tiles == nullptr ? target.getNumTiles() : tiles->size();
  if (tile >= count) {
    throw invalid_tile_mapping("Tile " + std::to_string(tile) + " does not exist: the graph has " +
                               std::to_string(count) + " tiles.");
  }
  return tiles == nullptr ? tile : (*tiles)[tile];
}

}  // namespace

unsigned Graph::convertPhysicalTileToVirtualTile(unsigned tile) const {
  if (tiles_ == nullptr) return PhysicalTile(nullptr, target_, tile);
  const auto found = std::find(tiles_->begin(), tiles_->end(), tile);
  if (found != tiles_->end()) return static_cast<unsigned>(found - tiles_->begin());
  throw invalid_tile_mapping("Tile " + std::to_string(tile) + " is not one of the virtual graph.");
}

unsigned Graph::convertVirtualTileToPhysicalTile(unsigned tile) const {
  return PhysicalTile(tiles_.get(), target_, tile);
}

void Graph::setTileMapping(VertexRef vertex, unsigned tile) {
  data_->vertices[vertex.getId()].tile = PhysicalTile(tiles_.get(), target_, tile);
}

void Graph::setTileMapping(const Tensor& tensor, unsigned tile) {
  const unsigned physical = PhysicalTile(tiles_.get(), target_, tile);
  core::ForEachRun(*Access::View(tensor),
                   [&](const Run& run) { SetTile(data_.get(), run, physical); });
}

void Graph::setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping) {
  const RunList runs = core::RunsOf(*Access::View(tensor));
  std::vector<Interval> all;
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    if (mapping[tile].empty()) continue;
    const unsigned physical = PhysicalTile(tiles_.get(), target_, tile);
    for (const Interval& interval : mapping[tile]) {
      if (interval.begin() > interval.end() || interval.end() > runs.size()) {
        throw invalid_tile_mapping("Elements [" + std::to_string(interval.begin()) + "," +
                                   std::to_string(interval.end()) + ") of tile " +
                                   std::to_string(tile) + " are not within the tensor's " +
                                   std::to_string(runs.size()) + " elements.");
      }
      if (interval.size() == 0) continue;
      all.push_back(interval);
      runs.Cut(interval.begin(), interval.size(),
               [&](const Run& run) { SetTile(data_.get(), run, physical); });
    }
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].begin() >= all[i - 1].end()) continue;
    throw invalid_tile_mapping("Element " + std::to_string(all[i].begin()) +
                               " of the tensor is mapped to two tiles.");
  }
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, bool* isComplete,
                                                 bool allowExternal) const {
  std::map<unsigned, unsigned> numbers;  // in this graph
  if (tiles_ != nullptr) {
    for (unsigned i = 0; i < tiles_->size(); ++i) numbers[(*tiles_)[i]] = i;
  }
  TileToTensorMapping mapping(tiles_ == nullptr ? target_.getNumTiles() : tiles_->size());
  bool complete = true;
  uint64_t at = 0;
  const auto place = [&](uint64_t begin, uint64_t end, int64_t tile) {
    if (tile == core::kUnmapped) {
      complete = false;
      return;
    }
    if (tiles_ != nullptr) {
      const auto found = numbers.find(static_cast<unsigned>(tile));
      if (found == numbers.end()) {
        if (!allowExternal) complete = false;
        return;
      }
      tile = found->second;
    }
    auto& list = mapping[tile];
    if (!list.empty() && list.back().end() == begin) {
      list.back() = Interval(list.back().begin(), end);
    } else {
      list.push_back(Interval(begin, end));
    }
  };
  core::ForEachRun(*Access::View(tensor), [&](const Run& run) {
    const core::TileMap& tiles = data_->variables[run.var].tiles;
    if (run.stride == 1) {
      tiles.ForEach(run.begin, run.begin + run.count,
                    [&](uint64_t begin, uint64_t end, int64_t tile) {
                      place(at + begin - run.begin, at + end - run.begin, tile);
                    });
    } else {
      for (uint64_t i = 0; i < run.count; ++i) {
        tiles.ForEach(run.At(i), run.At(i) + 1,
                      [&](uint64_t, uint64_t, int64_t tile) { place(at + i, at + i + 1, tile); });
      }
    }
    at += run.count;
  });
  if (isComplete != nullptr) *isComplete = complete;
  return mapping;
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, bool requireComplete,
                                                 bool allowExternal) const {
  bool complete = false;
  TileToTensorMapping mapping = getTileMapping(tensor, &complete, allowExternal);
  if (requireComplete && !complete) {
    throw invalid_tile_mapping("The tensor '" + tensor.getDebugStr() +
                               "' has elements that are not mapped to a tile.");
  }
  return mapping;
}

Graph Graph::createVirtualGraph(const std::vector<unsigned>& tiles) {
  auto physical = std::make_shared<std::vector<unsigned>>();
  for (const unsigned tile : tiles) {
    physical->push_back(PhysicalTile(tiles_.get(), target_, tile));
  }
  // Whole IPUs where the tiles are those, else one IPU of as many tiles.
  const unsigned per_ipu = data_->target.getTilesPerIPU();
  const unsigned count = static_cast<unsigned>(tiles.size());
  const bool whole = count > per_ipu && count % per_ipu == 0;
  const Target target = whole ? target_.createVirtualTarget(count / per_ipu, per_ipu)
                              : target_.createVirtualTarget(1, count);
  return Access::MakeGraph(data_, physical, target);
}

Graph Graph::createVirtualGraph(unsigned lowerTile, unsigned upperTile) {
  if (lowerTile > upperTile) {
    throw invalid_tile_mapping("createVirtualGraph: tile " + std::to_string(lowerTile) +
                               " is not below tile " + std::to_string(upperTile) + ".");
  }
  std::vector<unsigned> tiles;
  for (unsigned tile = lowerTile; tile < upperTile; ++tile) tiles.push_back(tile);
  return createVirtualGraph(tiles);
}

Graph Graph::createVirtualGraph(unsigned tilesPerIPU) {
  const unsigned per_ipu = target_.getTilesPerIPU(), ipus = target_.getNumIPUs();
  if (tilesPerIPU > per_ipu) {
    throw invalid_tile_mapping("createVirtualGraph: an IPU of the graph has " +
                               std::to_string(per_ipu) + " tiles.");
  }
  std::vector<unsigned> tiles;
  for (unsigned ipu = 0; ipu < ipus; ++ipu) {
    for (unsigned tile = 0; tile < tilesPerIPU; ++tile) tiles.push_back(ipu * per_ipu + tile);
  }
  Graph graph = createVirtualGraph(tiles);
  graph.target_ = target_.createVirtualTarget(ipus, tilesPerIPU);
  return graph;
}

Graph Graph::getTopLevelGraph() { return Access::MakeGraph(data_, nullptr, data_->target); }

std::vector<std::vector<Interval>> Graph::getSortedContiguousRegions(
    const Tensor& tensor, ArrayRef<Interval> regions, bool removeAliasedIntervals,
    std::vector<size_t>* aliases) const {
  struct Piece {
    uint32_t var;
    int64_t begin;
    Interval interval;
  };
  const RunList runs = core::RunsOf(*Access::View(tensor));
  std::vector<Piece> pieces;
  for (const Interval& region : regions) {
    size_t at = region.begin();
    runs.Cut(region.begin(), region.size(), [&](const Run& run) {
      if (run.stride == 1) {
        pieces.push_back({run.var, run.begin, Interval(at, at + run.count)});
      } else {
        for (uint64_t i = 0; i < run.count; ++i) {
          pieces.push_back({run.var, run.At(i), Interval(at + i, at + i + 1)});
        }
      }
      at += run.count;
    });
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.var, a.begin) < std::tie(b.var, b.begin);
  });
  std::vector<std::vector<Interval>> result;
  if (aliases != nullptr) aliases->clear();
  uint32_t var = ~0u;
  int64_t end = -1;
  for (const Piece& piece : pieces) {
    const int64_t size = static_cast<int64_t>(piece.interval.size());
    const bool aliased = piece.var == var && piece.begin < end;
    if (aliased && removeAliasedIntervals) continue;
    if (result.empty() || piece.var != var || piece.begin != end) result.emplace_back();
    auto& list = result.back();
    if (!list.empty() && list.back().end() == piece.interval.begin()) {
      list.back() = Interval(list.back().begin(), piece.interval.end());
    } else {
      list.push_back(piece.interval);
    }
    var = piece.var;
    end = piece.begin + size;
  }
  return result;
}

void Graph::reorderToSimplify(Tensor*, ArrayRef<Tensor*>, bool) const {}
TensorRearranger Graph::getSimplifyingRearranger(const Tensor&) const { return TensorRearranger(); }
Tensor Graph::findUnbroadcastTensor(const Tensor& tensor) const { return tensor; }

// ---- vertices

ComputeSet Graph::addComputeSet(const DebugContext& debugContext) {
  const unsigned id = static_cast<unsigned>(data_->compute_sets.size());
  data_->compute_sets.push_back({Name(debugContext, "cs", id), debugContext.location(), {}, {}});
  return ComputeSet(id);
}

VertexRef Graph::addVertex(ComputeSet computeSet, StringRef vertexType) {
  const auto type = data_->vertex_types.find(vertexType.cloneAsString());
  if (type == data_->vertex_types.end()) {
    throw unknown_vertex_type("The vertex type '" + vertexType.cloneAsString() +
                              "' is in no codelet that was added to the graph.");
  }
  if (computeSet.getId() >= data_->compute_sets.size()) {
    throw poplar_error("addVertex: the compute set is not one of this graph.");
  }
  const unsigned id = static_cast<unsigned>(data_->vertices.size());
  Vertex vertex{};
  vertex.type = type->second;
  vertex.compute_set = computeSet.getId();
  vertex.tile = core::kUnmapped;
  data_->vertices.push_back(vertex);
  data_->compute_sets[computeSet.getId()].vertices.push_back(id);
  return Access::MakeVertex(data_.get(), id);
}

VertexRef Graph::addVertex(ComputeSet computeSet, StringRef vertexType,
                           ArrayRef<ConnectionDesc> connections) {
  const VertexRef vertex = addVertex(computeSet, vertexType);
  for (const ConnectionDesc& connection : connections) {
    const FieldRef field = vertex[Access::FieldName(connection)];
    if (Access::IsList(connection)) {
      connect(field, ArrayRef<Tensor>(Access::Tensors(connection)));
    } else if (!Access::Tensors(connection).empty()) {
      connect(field, Access::Tensors(connection)[0]);
    } else {
      const std::string& value = Access::Value(connection);
      const Tensor constant = addConstant(Access::TypeOf(connection), {}, value.data(),
                                          TypeTraits(), Access::TypeOf(connection), true, {});
      setTileMapping(constant, 0);
      connect(field, constant);
    }
  }
  return vertex;
}

FieldRef VertexRef::operator[](StringRef field) const {
  const core::VertexType& type = *graph_->vertices[id_].type;
  const int index = type.Find(field.cloneAsString());
  if (index < 0) {
    throw unknown_field("The vertex type '" + type.name + "' has no field '" +
                        field.cloneAsString() + "'.");
  }
  FieldRef result;
  result.vertex_ = *this;
  result.field_ = static_cast<unsigned>(index);
  return result;
}

FieldRef FieldRef::operator[](size_t index) const {
  FieldRef result = *this;
  result.index_ = index;
  return result;
}

namespace {

const core::VertexField& FieldOf(const GraphData& data, const FieldRef& field) {
  const Vertex& vertex = data.vertices[Access::VertexOf(field).getId()];
  return vertex.type->fields[Access::FieldOf(field)];
}

std::string FieldName(const GraphData& data, const FieldRef& field) {
  const Vertex& vertex = data.vertices[Access::VertexOf(field).getId()];
  return vertex.type->name + "." + FieldOf(data, field).name;
}

bool IsList(const core::VertexField& field) {
  return field.form == core::FieldForm::EdgeList || field.form == core::FieldForm::RegionList;
}

void AddEdge(GraphData* data, const FieldRef& ref, const Tensor& tensor, int64_t region) {
  const core::VertexField& field = FieldOf(*data, ref);
  const View& view = *Access::View(tensor);
  if (view.type != field.type) {
    throw type_error("The field '" + FieldName(*data, ref) + "' has elements of " +
                     field.type.toString().cloneAsString() + ", the tensor '" +
                     tensor.getDebugStr() + "' of " + view.type.toString().cloneAsString() + ".");
  }
  const bool single =
      field.form == core::FieldForm::Scalar || field.form == core::FieldForm::EdgeList;
  if (single && view.NumElements() != 1) {
    throw graph_connection_error("The field '" + FieldName(*data, ref) +
                                 "' is of one element, the tensor '" + tensor.getDebugStr() +
                                 "' has " + std::to_string(view.NumElements()) + ".");
  }
  if (field.access != core::FieldAccess::Read && tensor.containsConstant()) {
    throw graph_connection_error("The field '" + FieldName(*data, ref) +
                                 "' is written; the tensor '" + tensor.getDebugStr() +
                                 "' is a constant.");
  }
  core::Edge edge{};
  edge.vertex = Access::VertexOf(ref).getId();
  edge.field = static_cast<uint16_t>(Access::FieldOf(ref));
  edge.region = static_cast<int32_t>(region);
  RunList runs = core::RunsOf(view);
  if (runs.runs().size() == 1) {
    edge.run = runs.runs()[0];
  } else if (!runs.runs().empty()) {
    edge.runs = std::make_shared<const RunList>(std::move(runs));
  }
  data->edges.push_back(std::move(edge));
}

}  // namespace

void Graph::connect(FieldRef field, const Tensor& tensor) {
  const core::VertexField& info = FieldOf(*data_, field);
  if (info.access == core::FieldAccess::State) {
    throw graph_connection_error("The field '" + FieldName(*data_, field) +
                                 "' is state: use setInitialValue.");
  }
  if (field.isIndexed()) {
    AddEdge(data_.get(), field, tensor, static_cast<int64_t>(field.getIndex()));
    return;
  }
  if (!IsList(info)) {
    AddEdge(data_.get(), field, tensor, -1);
    return;
  }
  if (info.form == core::FieldForm::EdgeList) {
    const Tensor flat = tensor.flatten();
    for (size_t i = 0; i < flat.numElements(); ++i) {
      AddEdge(data_.get(), field, flat[i], static_cast<int64_t>(i));
    }
    return;
  }
  if (tensor.rank() != 2) {
    throw graph_connection_error("The field '" + FieldName(*data_, field) +
                                 "' is a list of regions: connect a tensor of rank 2, or tensors.");
  }
  for (size_t i = 0; i < tensor.dim(0); ++i) {
    AddEdge(data_.get(), field, tensor[i], static_cast<int64_t>(i));
  }
}

void Graph::connect(FieldRef field, ArrayRef<Tensor> tensors) {
  const core::VertexField& info = FieldOf(*data_, field);
  if (!IsList(info)) {
    connect(field, concat(tensors));
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    AddEdge(data_.get(), field, tensors[i], static_cast<int64_t>(i));
  }
}

void Graph::setInitialValue(FieldRef field, const void* values, size_t, const Type& from,
                            size_t count, bool isList) {
  const core::VertexField& info = FieldOf(*data_, field);
  const bool vector = info.form == core::FieldForm::Vector;
  if (info.access != core::FieldAccess::State || isList != vector) {
    throw graph_connection_error(
        "setInitialValue: the field '" + FieldName(*data_, field) + "' is " +
        (info.access != core::FieldAccess::State ? "connected to tensors, not state."
         : vector                                ? "a vector: give several values."
                                                 : "of one value."));
  }
  core::State state;
  state.vertex = Access::VertexOf(field).getId();
  state.field = static_cast<uint16_t>(Access::FieldOf(field));
  state.bytes.resize(count * core::SizeOf(info.type));
  core::Convert(from, values, info.type, state.bytes.data(), count);
  data_->states.push_back(std::move(state));
}

void Graph::setInitialValueHalf(FieldRef field, uint16_t value) {
  setInitialValue(field, &value, sizeof value, HALF, 1, false);
}

void Graph::setInitialValueHalf(FieldRef field, ArrayRef<uint16_t> values) {
  setInitialValue(field, values.data(), sizeof(uint16_t), HALF, values.size(), true);
}

void Graph::setFieldSize(FieldRef field, size_t size) {
  const auto key = std::make_pair(Access::VertexOf(field).getId(),
                                  static_cast<uint16_t>(Access::FieldOf(field)));
  data_->field_sizes[key] = size;
}

size_t Graph::getFieldSize(FieldRef field) const {
  const unsigned vertex = Access::VertexOf(field).getId(), index = Access::FieldOf(field);
  const auto set = data_->field_sizes.find({vertex, static_cast<uint16_t>(index)});
  if (set != data_->field_sizes.end()) return set->second;
  size_t size = 0;
  data_->ForEachEdge(vertex, [&](const core::Edge& edge) {
    if (edge.field != index) return;
    size = edge.region < 0 ? edge.Size() : std::max<size_t>(size, edge.region + 1);
  });
  if (size == 0) {
    throw no_size_specified("The field '" + FieldName(*data_, field) + "' has no size yet.");
  }
  return size;
}

namespace {

const core::VertexField& FieldOf(const GraphData& data, StringRef vertexType, StringRef field) {
  const auto type = data.vertex_types.find(vertexType.cloneAsString());
  if (type == data.vertex_types.end()) {
    throw unknown_vertex_type("The vertex type '" + vertexType.cloneAsString() +
                              "' is in no codelet that was added to the graph.");
  }
  const int index = type->second->Find(field.cloneAsString());
  if (index < 0) {
    throw unknown_field("The vertex type '" + type->second->name + "' has no field '" +
                        field.cloneAsString() + "'.");
  }
  return type->second->fields[index];
}

}  // namespace

size_t Graph::getMaxFieldDim(StringRef vertexType, StringRef field, unsigned) const {
  FieldOf(*data_, vertexType, field);
  return std::numeric_limits<uint32_t>::max();  // no compact layouts here
}

double Graph::getMaxVertexFieldValue(StringRef vertexType, StringRef field) const {
  const size_t bits = 8 * core::SizeOf(FieldOf(*data_, vertexType, field).type);
  return bits >= 64 ? 1.8e19 : static_cast<double>((uint64_t{1} << bits) - 1);
}

void Graph::setPerfEstimate(const VertexRef& vertex, uint64_t cycles, uint64_t flops) {
  Vertex& data = data_->vertices[vertex.getId()];
  data.has_estimate = true;
  data.estimate = VertexPerfEstimate(cycles, flops);
}

VertexPerfEstimate Graph::getPerfEstimate(const VertexRef& vertex) const {
  const Vertex& data = data_->vertices[vertex.getId()];
  if (data.has_estimate) return data.estimate;
  const auto estimator = data_->estimators.find(data.type->name);
  if (estimator == data_->estimators.end()) {
    throw missing_perf_estimate("The vertex type '" + data.type->name + "' has no estimate.");
  }
  return estimator->second(Access::MakeIntrospector(data_.get(), vertex.getId()), target_);
}

void Graph::registerPerfEstimator(StringRef vertexType, PerfEstimateFunc estimator) {
  data_->estimators[vertexType.cloneAsString()] = std::move(estimator);
}

unsigned Graph::getNumVertices() const { return static_cast<unsigned>(data_->vertices.size()); }

FieldData FieldData::operator[](size_t index) const {
  FieldData region;
  region.size_ = getSizeAtIndex(index);
  return region;
}

FieldData VertexIntrospector::getFieldInfo(StringRef name) const {
  const int field = graph_->vertices[vertex_].type->Find(name.cloneAsString());
  if (field < 0) throw unknown_field("There is no field '" + name.cloneAsString() + "'.");
  FieldData data;
  graph_->ForEachEdge(vertex_, [&](const core::Edge& edge) {
    if (edge.field != field) return;
    if (edge.region < 0) {
      data.size_ = edge.Size();
    } else {
      data.sizes_.resize(std::max<size_t>(data.sizes_.size(), edge.region + 1));
      data.sizes_[edge.region] = edge.Size();
    }
  });
  const Type type = graph_->vertices[vertex_].type->fields[field].type;
  graph_->ForEachState(vertex_, [&](const core::State& state) {
    if (state.field != field) return;
    data.bytes_ = state.bytes;
    data.size_ = state.bytes.size() / core::SizeOf(type);
  });
  return data;
}

// ---- host access, streams and functions

namespace {

void AddHostTensor(std::map<std::string, core::HostTensor>* tensors, StringRef handle,
                   const Tensor& tensor, bool write) {
  if (!tensors->emplace(handle.cloneAsString(), core::HostTensor{Access::View(tensor), write})
           .second) {
    throw poplar_error("The handle '" + handle.cloneAsString() + "' exists already.");
  }
}

void CheckHandle(const GraphData& data, const std::string& handle) {
  bool found = false;
  for (const auto& stream : data.streams) found = found || stream->handle == handle;
  for (const auto& buffer : data.buffers) found = found || buffer->handle == handle;
  if (found) throw poplar_error("The handle '" + handle + "' exists already.");
}

DataStream AddStream(GraphData* data, StringRef handle, const Type& type, size_t count,
                     ReplicatedStreamMode mode, DataStreamType kind, const OptionFlags& options) {
  CheckHandle(*data, handle.cloneAsString());
  unsigned depth = 1;
  for (const auto& [name, value] : options) {
    if (name != "splitLimit" && name != "bufferingDepth") {
      throw invalid_option("A stream has no option '" + name + "'.");
    }
    char* end = nullptr;
    const unsigned long number = std::strtoul(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0') {
      throw invalid_option("The option '" + name + "' of a stream is a number, not '" + value +
                           "'.");
    }
    if (name == "bufferingDepth") depth = static_cast<unsigned>(number);
  }
  auto stream = std::make_shared<core::StreamData>();
  *stream = {static_cast<unsigned>(data->streams.size()),
             handle.cloneAsString(),
             type,
             count,
             data->replicas,
             mode,
             kind,
             depth};
  data->streams.push_back(stream);
  return Access::MakeStream(stream);
}

}  // namespace

void Graph::createHostWrite(StringRef handle, const Tensor& tensor, bool) {
  if (tensor.containsConstant()) {
    throw poplar_error("createHostWrite: '" + tensor.getDebugStr() + "' is a constant.");
  }
  AddHostTensor(&data_->host_writes, handle, tensor, true);
}

void Graph::createHostRead(StringRef handle, const Tensor& tensor, bool) {
  AddHostTensor(&data_->host_reads, handle, tensor, false);
}

DataStream Graph::addHostToDeviceFIFO(StringRef handle, const Type& type, size_t numElements,
                                      ReplicatedStreamMode mode, const OptionFlags& options) {
  return AddStream(data_.get(), handle, type, numElements, mode, DataStreamType::HostToDeviceFIFO,
                   options);
}

DataStream Graph::addDeviceToHostFIFO(StringRef handle, const Type& type, size_t numElements,
                                      const OptionFlags& options) {
  return AddStream(data_.get(), handle, type, numElements, ReplicatedStreamMode::REPLICATE,
                   DataStreamType::DeviceToHostFIFO, options);
}

RemoteBuffer Graph::addRemoteBuffer(StringRef handle, const Type& type, size_t numElements,
                                    size_t repeats, bool rearrangeOnHost, bool optimiseMemory) {
  CheckHandle(*data_, handle.cloneAsString());
  auto buffer = std::make_shared<core::BufferData>();
  *buffer = {static_cast<unsigned>(data_->buffers.size()),
             handle.cloneAsString(),
             type,
             numElements,
             repeats,
             rearrangeOnHost,
             optimiseMemory};
  data_->buffers.push_back(buffer);
  return Access::MakeBuffer(buffer);
}

HostFunction Graph::addHostFunction(StringRef handle, ArrayRef<HostFunctionArgument> inputs,
                                    ArrayRef<HostFunctionArgument> outputs) {
  data_->host_functions.push_back(
      {handle.cloneAsString(), inputs.cloneAsVector(), outputs.cloneAsVector()});
  return HostFunction(static_cast<unsigned>(data_->host_functions.size() - 1));
}

Function Graph::addFunction(const program::Program& program) {
  data_->functions.push_back(program);
  return Function(static_cast<unsigned>(data_->functions.size() - 1));
}

FunctionBuffer Graph::addFunctionBuffer(Function function, FunctionBufferMappingType) {
  return FunctionBuffer(function.getId());
}

Tensor Graph::addReplicationIndexConstant(const DebugContext& debugContext) {
  const Tensor index = addConstant(UNSIGNED_INT, {}, 0u, debugContext);
  data_->variables[Access::View(index)->strided.var].replica_index = true;
  setTileMapping(index, 0);
  return index;
}

std::string DataStream::handle() const { return data_->handle; }
size_t DataStream::numElements() const { return data_->count; }
Type DataStream::elementType() const { return data_->type; }
unsigned DataStream::replicationFactor() const { return data_->replicas; }
ReplicatedStreamMode DataStream::replicatedMode() const { return data_->mode; }
DataStreamType DataStream::type() const { return data_->kind; }

std::string RemoteBuffer::handle() const { return data_->handle; }
size_t RemoteBuffer::numElements() const { return data_->count; }
size_t RemoteBuffer::getRepeats() const { return data_->repeats; }
Type RemoteBuffer::elementType() const { return data_->type; }
bool RemoteBuffer::isRearrangeOnHost() const { return data_->rearrange; }
bool RemoteBuffer::isOptimisedForMemory() const { return data_->optimise; }

// ---- text

namespace {

std::string Escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

void Graph::outputVertexGraph(std::ostream& os, ArrayRef<program::Program>) const {
  os << "digraph vertices {\n";
  for (size_t v = 0; v < data_->vertices.size(); ++v) {
    os << "  v" << v << " [shape=box,label=\"" << Escaped(data_->vertices[v].type->name)
       << "\"];\n";
  }
  for (size_t v = 0; v < data_->variables.size(); ++v) {
    os << "  t" << v << " [label=\"" << Escaped(data_->variables[v].name) << "\"];\n";
  }
  for (const core::Edge& edge : data_->edges) {
    const bool reads =
        data_->vertices[edge.vertex].type->fields[edge.field].access == core::FieldAccess::Read;
    std::vector<uint32_t> variables;
    if (edge.runs != nullptr) {
      for (const Run& run : edge.runs->runs()) variables.push_back(run.var);
    } else if (edge.run.count > 0) {
      variables.push_back(edge.run.var);
    }
    std::sort(variables.begin(), variables.end());
    variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
    for (const uint32_t variable : variables) {
      os << (reads ? "  t" : "  v") << (reads ? variable : edge.vertex) << " -> "
         << (reads ? "v" : "t") << (reads ? edge.vertex : variable) << ";\n";
    }
  }
  os << "}\n";
}

void Graph::outputComputeGraph(std::ostream& os, ArrayRef<program::Program>) const {
  os << "digraph compute {\n";
  for (size_t c = 0; c < data_->compute_sets.size(); ++c) {
    os << "  c" << c << " [shape=box,label=\"" << Escaped(data_->compute_sets[c].name) << " ("
       << data_->compute_sets[c].vertices.size() << " vertices)\"];\n";
  }
  for (size_t c = 1; c < data_->compute_sets.size(); ++c) {
    os << "  c" << c - 1 << " -> c" << c << ";\n";
  }
  os << "}\n";
}

}  // namespace poplar
