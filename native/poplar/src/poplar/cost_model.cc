#include "cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "access.h"
#include "poplar/core/OpWork.hpp"
#include "types.h"
#include "view.h"

namespace poplar::core {
namespace {

// Variables that a report lists.
constexpr size_t kLargest = 1000;
// Of the chip: an edge is a pointer, a vector a pointer and a size.
constexpr uint64_t kPointerBytes = 4;

uint64_t DivideUp(uint64_t a, uint64_t b) { return b == 0 ? 0 : (a + b - 1) / b; }

// Elements of one run on one tile.
struct Piece {
  uint64_t count;
  int64_t tile;
};

// Calls `visit(count, tile)` for the elements of a run, in the order of memory.
template <typename Visit>
void ForEachTile(const GraphData& graph, const Run& run, Visit visit) {
  if (run.count == 0) return;
  const int64_t low = run.Lowest(), step = std::abs(run.stride);
  graph.variables[run.var].tiles.ForEach(
      low, run.Highest() + 1, [&](uint64_t begin, uint64_t end, int64_t tile) {
        if (step <= 1) {
          visit(step == 0 ? run.count : end - begin, tile);
          return;
        }
        const uint64_t first = DivideUp(begin - low, step), last = DivideUp(end - low, step);
        if (last > first) visit(last - first, tile);
      });
}

std::vector<Piece> PiecesOf(const GraphData& graph, const View& view) {
  std::vector<Piece> pieces;
  ForEachRun(view, [&](const Run& run) {
    const size_t begin = pieces.size();
    ForEachTile(graph, run, [&](uint64_t count, int64_t tile) { pieces.push_back({count, tile}); });
    if (run.stride < 0) std::reverse(pieces.begin() + begin, pieces.end());
  });
  return pieces;
}

uint64_t StateBytes(const VertexType& type) {
  uint64_t bytes = 0;
  for (const VertexField& field : type.fields) {
    if (field.form != FieldForm::Scalar) {
      bytes += 2 * kPointerBytes;
    } else {
      bytes += field.access == FieldAccess::State ? SizeOf(field.type) : kPointerBytes;
    }
  }
  return bytes;
}

}  // namespace

// Uses a list of zeros, and leaves one: large graphs have many small steps.
class CostModel::Received {
 public:
  explicit Received(std::vector<uint64_t>* zeros) : bytes_(*zeros) {}
  ~Received() {
    for (const int64_t tile : touched_) bytes_[tile] = 0;
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

  void Add(int64_t tile, uint64_t bytes) {
    if (tile == kUnmapped || bytes == 0) return;
    if (bytes_[tile] == 0) touched_.push_back(tile);
    bytes_[tile] += bytes;
  }
  uint64_t Most() const {
    uint64_t most = 0;
    for (const int64_t tile : touched_) most = std::max(most, bytes_[tile]);
    return most;
  }
  // Adds all to a profile, and returns their sum.
  uint64_t AddTo(std::vector<uint64_t>* profile) const {
    uint64_t sum = 0;
    for (const int64_t tile : touched_) {
      (*profile)[tile] += bytes_[tile];
      sum += bytes_[tile];
    }
    return sum;
  }

 private:
  std::vector<uint64_t>& bytes_;
  std::vector<int64_t> touched_;
};

CostModel::CostModel(const GraphData& graph)
    : graph_(graph), target_(graph.target), chip_(Access::Data(target_)->chip) {
  const size_t tiles = target_.getNumTiles();
  for (std::vector<uint64_t>* list :
       {&profile_.variable_bytes, &profile_.constant_bytes, &profile_.vertex_bytes,
        &profile_.vertex_counts, &profile_.exchange_bytes}) {
    list->assign(tiles, 0);
  }
  for (std::vector<uint64_t>& zeros : zeros_) zeros.assign(tiles, 0);
  profile_.steps.emplace_back();
  AddVariables();
  AddVertices();
}

void CostModel::AddVariables() {
  profile_.variables = graph_.variables.size();
  std::vector<std::pair<uint64_t, uint32_t>> sizes;
  for (uint32_t v = 0; v < graph_.variables.size(); ++v) {
    const Variable& variable = graph_.variables[v];
    const uint64_t size = SizeOf(variable.type);
    auto& bytes = variable.constant ? profile_.constant_bytes : profile_.variable_bytes;
    variable.tiles.ForEach(0, variable.count, [&](uint64_t begin, uint64_t end, int64_t tile) {
      if (tile != kUnmapped) bytes[tile] += (end - begin) * size;
    });
    sizes.push_back({variable.count * size, v});
  }
  const size_t listed = std::min(kLargest, sizes.size());
  std::partial_sort(sizes.begin(), sizes.begin() + listed, sizes.end(), std::greater<>());
  for (size_t i = 0; i < listed; ++i) {
    const Variable& variable = graph_.variables[sizes[i].second];
    std::vector<int64_t> tiles;
    variable.tiles.ForEach(0, variable.count,
                           [&](uint64_t, uint64_t, int64_t tile) { tiles.push_back(tile); });
    std::sort(tiles.begin(), tiles.end());
    const uint64_t count = std::unique(tiles.begin(), tiles.end()) - tiles.begin();
    profile_.largest_variables.push_back({variable.name, variable.type.toString().cloneAsString(),
                                          variable.count, sizes[i].first, count,
                                          variable.constant});
  }
}

void CostModel::AddVertices() {
  profile_.vertices = graph_.vertices.size();
  profile_.edges = graph_.edges.size();
  profile_.compute_sets = graph_.compute_sets.size();
  for (const Vertex& vertex : graph_.vertices) {
    if (vertex.tile == kUnmapped) continue;
    ++profile_.vertex_counts[vertex.tile];
    profile_.vertex_bytes[vertex.tile] += StateBytes(*vertex.type);
  }
}

uint64_t CostModel::ExchangeCycles(uint64_t most_bytes) const {
  if (most_bytes == 0) return 0;
  return chip_.exchange_overhead + DivideUp(most_bytes, chip_.exchange_bytes_per_cycle);
}

uint64_t CostModel::CyclesAt(uint64_t bytes, double bytes_per_second) const {
  return static_cast<uint64_t>(
      std::ceil(static_cast<double>(bytes) / bytes_per_second * target_.getTileClockFrequency()));
}

// Cycles of one run on one worker: the user's estimate, else an instruction for each element.
uint64_t CostModel::CyclesOf(uint32_t number, bool* estimated) const {
  const Vertex& vertex = graph_.vertices[number];
  *estimated = true;
  if (vertex.has_estimate) return vertex.estimate.cycles;
  const auto estimator = graph_.estimators.find(vertex.type->name);
  if (estimator != graph_.estimators.end()) {
    return estimator->second(Access::MakeIntrospector(&graph_, number), target_).cycles;
  }
  *estimated = false;
  uint64_t elements = 0;
  graph_.ForEachEdge(number, [&](const Edge& edge) { elements += edge.Size(); });
  return chip_.vertex_launch_cycles + elements;
}

StepProfile CostModel::OfComputeSet(const ComputeSetData& set) {
  ComputeSetProfile profile;
  profile.name = set.name;
  Received received(&zeros_[0]);
  struct Tile {
    uint64_t all = 0, longest = 0, supervisor = 0;
  };
  std::map<int64_t, Tile> tiles;
  std::map<const VertexType*, uint64_t> counts;
  for (const uint32_t number : set.vertices) {
    const Vertex& vertex = graph_.vertices[number];
    bool estimated = false;
    const uint64_t cycles = CyclesOf(number, &estimated);
    profile.estimated += estimated;
    ++counts[vertex.type];
    Tile& tile = tiles[vertex.tile];
    if (vertex.type->kind == VertexKind::Vertex) {
      tile.all += cycles;
      tile.longest = std::max(tile.longest, cycles);
    } else {
      tile.supervisor += cycles;
    }
    graph_.ForEachEdge(number, [&](const Edge& edge) {
      const VertexField& field = vertex.type->fields[edge.field];
      const uint64_t size = SizeOf(field.type);
      edge.ForEachRun([&](const Run& run) {
        ForEachTile(graph_, run, [&](uint64_t count, int64_t from) {
          if (from == vertex.tile) return;
          if (field.access != FieldAccess::Write) received.Add(vertex.tile, count * size);
          if (field.access != FieldAccess::Read) received.Add(from, count * size);
        });
      });
    });
  }
  for (const auto& [type, count] : counts) profile.vertices[type->name] = count;
  StepProfile step{"Execute", set.name};
  const uint64_t workers = target_.getNumWorkerContexts();
  for (const auto& [number, tile] : tiles) {
    const uint64_t on_workers = std::max(tile.longest, DivideUp(tile.all, workers)) * workers;
    profile.cycles_by_tile.push_back(on_workers + tile.supervisor);
    step.compute = std::max(step.compute, profile.cycles_by_tile.back());
  }
  step.compute += chip_.compute_set_cycles;
  step.exchange = ExchangeCycles(received.Most());
  step.sync = chip_.sync_cycles;
  step.bytes = received.AddTo(&profile_.exchange_bytes);
  profile_.used_compute_sets.push_back(std::move(profile));
  return step;
}

StepProfile CostModel::OfCopy(const std::string& name, const View& from, const View& to) {
  const std::vector<Piece> sources = PiecesOf(graph_, from), targets = PiecesOf(graph_, to);
  const uint64_t size = SizeOf(from.type);
  Received received(&zeros_[0]), moved(&zeros_[1]);
  size_t s = 0, t = 0;
  uint64_t s_done = 0, t_done = 0;
  while (s < sources.size() && t < targets.size()) {
    const uint64_t count = std::min(sources[s].count - s_done, targets[t].count - t_done);
    const bool local = sources[s].tile == targets[t].tile;
    (local ? moved : received).Add(targets[t].tile, count * size);
    s_done += count;
    t_done += count;
    if (s_done == sources[s].count) ++s, s_done = 0;
    if (t_done == targets[t].count) ++t, t_done = 0;
  }
  StepProfile step{received.Most() > 0 ? "DoExchange" : "OnTileExecute", name};
  step.compute = DivideUp(moved.Most(), target_.getMemcpyBytesPerCycle());
  step.exchange = ExchangeCycles(received.Most());
  step.sync = step.exchange > 0 ? chip_.sync_cycles : 0;
  step.bytes = received.AddTo(&profile_.exchange_bytes);
  return step;
}

StepProfile CostModel::OfHostTransfer(const char* kind, const std::string& name,
                                      uint64_t bytes) const {
  StepProfile step{kind, name};
  step.exchange = CyclesAt(bytes, chip_.host_bandwidth * target_.getNumIPUs());
  step.sync = chip_.sync_cycles;
  step.bytes = bytes;
  return step;
}

// Cycles of an op's multiply-adds on all tiles; 0 if it has none.
uint64_t CostModel::ProductCycles(const ProgramNode& node) const {
  KernelSpec spec{node.text, node.parameters, {}, {}};
  for (const Tensor& tensor : node.inputs) {
    spec.inputs.push_back({tensor.elementType(), tensor.shape()});
  }
  for (const Tensor& tensor : node.outputs) {
    spec.outputs.push_back({tensor.elementType(), tensor.shape()});
  }
  const MatrixWork work = workOf(spec);
  if (work.times == 0) return 0;
  const uint64_t rate = multiplyAddsPerCycle(target_, spec.inputs.at(0).type);
  return DivideUp(work.multiplyAdds(), target_.getNumTiles() * rate);
}

StepProfile CostModel::OfOp(const ProgramNode& node, bool collective) const {
  uint64_t in = 0, out = 0;
  for (const Tensor& tensor : node.inputs)
    in += tensor.numElements() * SizeOf(tensor.elementType());
  for (const Tensor& tensor : node.outputs) {
    out += tensor.numElements() * SizeOf(tensor.elementType());
  }
  StepProfile step{collective ? "GlobalExchange" : "LibraryOp",
                   node.name.empty() ? node.text : node.name + " (" + node.text + ")"};
  const uint64_t tiles = target_.getNumTiles();
  // Operands are loaded while products are computed.
  step.compute =
      chip_.compute_set_cycles +
      std::max(DivideUp(in + out, tiles * chip_.load_bytes_per_cycle), ProductCycles(node));
  step.exchange = collective ? CyclesAt(in + out, chip_.collective_bandwidth)
                             : ExchangeCycles(DivideUp(in, tiles));
  step.sync = chip_.sync_cycles;
  step.bytes = in;
  return step;
}

}  // namespace poplar::core
