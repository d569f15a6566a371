#include "gcl/Collectives.hpp"

#include <algorithm>
#include <istream>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gcl/TileAllocation.hpp"
#include "kernels.h"
#include "poplar/core/LibraryOp.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/exceptions.hpp"

namespace gcl {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Copy;
using poplar::program::Sequence;
using poputil::poplibs_error;

namespace {

const char* const kNames[] = {"ADD",         "MEAN",       "MUL",        "MIN",  "MAX",
                              "LOGICAL_AND", "LOGICAL_OR", "SQUARE_ADD", "LOCAL"};

std::string NameOf(const Type& type) { return type.toString().cloneAsString(); }

void CheckOptions(const OptionFlags& options) {
  static const auto* names = new std::set<std::string>{
      "useSynclessCollectives",     "maxBytesPerTile",         "method", "topology", "link",
      "syncful.useOptimisedLayout", "syncful.maxBroadcastSize"};
  for (const auto& [name, value] : options) {
    if (names->count(name) == 0) {
      throw poplar::invalid_option("A collective has no option '" + name + "' (given: '" + value +
                                   "').");
    }
  }
}

// Returns the replicas of a group.
unsigned CheckGroup(const char* function, const Graph& graph, const CommGroup& group) {
  const unsigned replicas = graph.getReplicationFactor(), size = GroupSize(group, replicas);
  const unsigned stride =
      group.type == CommGroupType::CONSECUTIVE ? std::max(1u, group.replicaGroupStride) : 1;
  if (replicas % (size * stride) == 0) return size;
  throw poplibs_error(std::string(function) + ": groups of " + std::to_string(size) +
                      " replicas do not divide the " + std::to_string(replicas) +
                      " replicas of the graph.");
}

void CheckReduction(const char* function, const Tensor& data, CollectiveOperator op) {
  const Type type = data.elementType();
  const bool logical =
      op == CollectiveOperator::LOGICAL_AND || op == CollectiveOperator::LOGICAL_OR;
  const bool number = type == poplar::FLOAT || type == poplar::HALF || type == poplar::INT ||
                      type == poplar::UNSIGNED_INT;
  if (logical ? type == poplar::BOOL : number) return;
  throw poplibs_error(std::string(function) + ": " + kNames[static_cast<int>(op)] +
                      (logical ? " reduces BOOL" : " reduces FLOAT, HALF, INT and UNSIGNED_INT") +
                      ", not " + NameOf(type) + ".");
}

void CheckDestination(const char* function, const Tensor& destination, const Type& type,
                      size_t elements) {
  if (destination.elementType() == type && destination.numElements() == elements) return;
  throw poplibs_error(std::string(function) + ": the destination has " +
                      std::to_string(destination.numElements()) + " elements of " +
                      NameOf(destination.elementType()) + ", the result " +
                      std::to_string(elements) + " of " + NameOf(type) + ".");
}

void AddStep(Graph& graph, Sequence& prog, const char* kernel, CollectiveOperator op,
             const CommGroup& group, const Tensor& input, const Tensor& output,
             const DebugContext& context) {
  prog.add(poplar::core::collectiveOp(graph, kernel, Text(op, group), {input}, {output}, context));
}

// Elements of a part of `data`.
size_t PartOf(const Tensor& data, unsigned parts) {
  return (data.numElements() + parts - 1) / parts;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, CollectiveOperator op) {
  return os << kNames[static_cast<int>(op)];
}

std::istream& operator>>(std::istream& is, CollectiveOperator& op) {
  std::string text;
  is >> text;
  const auto name = std::find(std::begin(kNames), std::end(kNames), text);
  if (name == std::end(kNames)) {
    throw poplibs_error("CollectiveOperator: there is no operator '" + text + "'.");
  }
  op = static_cast<CollectiveOperator>(name - std::begin(kNames));
  return is;
}

// ---- all-reduce

void allReduceToDestinationCrossReplica(Graph& graph, const Tensor& data, Tensor& destination,
                                        CollectiveOperator op, Sequence& prog,
                                        const CommGroup& group, const DebugContext& debugContext,
                                        const OptionFlags& options) {
  CheckOptions(options);
  CheckGroup("allReduceCrossReplica", graph, group);
  CheckDestination("allReduceToDestinationCrossReplica", destination, data.elementType(),
                   data.numElements());
  if (op == CollectiveOperator::LOCAL) {
    prog.add(Copy(data, destination, false, debugContext));
    return;
  }
  CheckReduction("allReduceCrossReplica", data, op);
  AddStep(graph, prog, "gcl::allReduce", op, group, data, destination, debugContext);
}

void allReduceToDestinationCrossReplica(Graph& graph, const Tensor& data, Tensor& destination,
                                        CollectiveOperator op, Sequence& prog,
                                        const DebugContext& debugContext,
                                        const OptionFlags& options) {
  allReduceToDestinationCrossReplica(graph, data, destination, op, prog, CommGroup(), debugContext,
                                     options);
}

void allReduceInPlaceCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                                  Sequence& prog, const CommGroup& group,
                                  const DebugContext& debugContext, const OptionFlags& options) {
  Tensor destination = data;
  allReduceToDestinationCrossReplica(graph, data, destination, op, prog, group, debugContext,
                                     options);
}

void allReduceInPlaceCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                                  Sequence& prog, const DebugContext& debugContext,
                                  const OptionFlags& options) {
  allReduceInPlaceCrossReplica(graph, data, op, prog, CommGroup(), debugContext, options);
}

void allReduceInPlaceCrossReplica(Graph& graph, const std::vector<Tensor>& datas,
                                  CollectiveOperator op, Sequence& prog, const CommGroup& group,
                                  const DebugContext& debugContext, const OptionFlags& options) {
  for (const Tensor& data : datas) {
    allReduceInPlaceCrossReplica(graph, data, op, prog, group, debugContext, options);
  }
}

Tensor allReduceCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                             Sequence& prog, const CommGroup& group,
                             const DebugContext& debugContext, const OptionFlags& options) {
  Tensor result = graph.clone(data, {debugContext, "allReduce"});
  allReduceToDestinationCrossReplica(graph, data, result, op, prog, group, debugContext, options);
  return result;
}

Tensor allReduceCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                             Sequence& prog, const DebugContext& debugContext,
                             const OptionFlags& options) {
  return allReduceCrossReplica(graph, data, op, prog, CommGroup(), debugContext, options);
}

std::vector<Tensor> allReduceCrossReplica(Graph& graph, const std::vector<Tensor>& datas,
                                          CollectiveOperator op, Sequence& prog,
                                          const CommGroup& group, const DebugContext& debugContext,
                                          const OptionFlags& options) {
  std::vector<Tensor> results;
  for (const Tensor& data : datas) {
    results.push_back(allReduceCrossReplica(graph, data, op, prog, group, debugContext, options));
  }
  return results;
}

std::vector<Tensor> allReduceCrossReplica(Graph& graph, const std::vector<Tensor>& datas,
                                          CollectiveOperator op, Sequence& prog,
                                          const DebugContext& debugContext,
                                          const OptionFlags& options) {
  return allReduceCrossReplica(graph, datas, op, prog, CommGroup(), debugContext, options);
}

// ---- reduce-scatter

void reduceScatterToDestinationCrossReplica(Graph& graph, const Tensor& data,
                                            const Tensor& destination, CollectiveOperator op,
                                            Sequence& prog, const CommGroup& group,
                                            const DebugContext& debugContext,
                                            const OptionFlags& options) {
  CheckOptions(options);
  const unsigned size = CheckGroup("reduceScatterCrossReplica", graph, group);
  CheckReduction("reduceScatterCrossReplica", data, op);
  CheckDestination("reduceScatterToDestinationCrossReplica", destination, data.elementType(),
                   PartOf(data, size));
  AddStep(graph, prog, "gcl::reduceScatter", op, group, data, destination, debugContext);
}

void reduceScatterToDestinationCrossReplica(Graph& graph, const Tensor& data,
                                            const Tensor& destination, CollectiveOperator op,
                                            Sequence& prog, const DebugContext& debugContext,
                                            const OptionFlags& options) {
  reduceScatterToDestinationCrossReplica(graph, data, destination, op, prog, CommGroup(),
                                         debugContext, options);
}

Tensor reduceScatterCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                                 Sequence& prog, const CommGroup& group,
                                 const DebugContext& debugContext, const OptionFlags& options) {
  const unsigned size = CheckGroup("reduceScatterCrossReplica", graph, group);
  const Tensor result =
      graph.addVariable(data.elementType(), {PartOf(data, size)},
                        poplar::VariableMappingMethod::LINEAR, {debugContext, "reduceScatter"});
  reduceScatterToDestinationCrossReplica(graph, data, result, op, prog, group, debugContext,
                                         options);
  return result;
}

Tensor reduceScatterCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                                 Sequence& prog, const DebugContext& debugContext,
                                 const OptionFlags& options) {
  return reduceScatterCrossReplica(graph, data, op, prog, CommGroup(), debugContext, options);
}

// ---- all-gather

void allGatherToDestinationCrossReplica(Graph& graph, const Tensor& data, const Tensor& destination,
                                        Sequence& prog, const CommGroup& group,
                                        const DebugContext& debugContext,
                                        const OptionFlags& options) {
  CheckOptions(options);
  const unsigned size = CheckGroup("allGatherCrossReplica", graph, group);
  CheckDestination("allGatherToDestinationCrossReplica", destination, data.elementType(),
                   data.numElements() * size);
  AddStep(graph, prog, "gcl::allGather", CollectiveOperator::LOCAL, group, data, destination,
          debugContext);
}

void allGatherToDestinationCrossReplica(Graph& graph, const Tensor& data, const Tensor& destination,
                                        Sequence& prog, const DebugContext& debugContext,
                                        const OptionFlags& options) {
  allGatherToDestinationCrossReplica(graph, data, destination, prog, CommGroup(), debugContext,
                                     options);
}

Tensor allGatherCrossReplica(Graph& graph, const Tensor& data, Sequence& prog,
                             const CommGroup& group, const DebugContext& debugContext,
                             const OptionFlags& options) {
  const unsigned size = CheckGroup("allGatherCrossReplica", graph, group);
  const Tensor result = graph.cloneN(data.expand({0}), size, {debugContext, "allGather"});
  allGatherToDestinationCrossReplica(graph, data, result, prog, group, debugContext, options);
  return result;
}

Tensor allGatherCrossReplica(Graph& graph, const Tensor& data, Sequence& prog,
                             const DebugContext& debugContext, const OptionFlags& options) {
  return allGatherCrossReplica(graph, data, prog, CommGroup(), debugContext, options);
}

// ---- all-to-all

Tensor allToAllCrossReplica(Graph& graph, const Tensor& data, Sequence& prog,
                            const CommGroup& group, const DebugContext& debugContext,
                            const OptionFlags& options) {
  CheckOptions(options);
  const unsigned size = CheckGroup("allToAllCrossReplica", graph, group);
  if (data.rank() == 0 || data.dim(0) != size) {
    throw poplibs_error("allToAllCrossReplica: the tensor " + data.shapeToString() +
                        " needs a row for each of " + std::to_string(size) + " replicas.");
  }
  const Tensor result = graph.clone(data, {debugContext, "allToAll"});
  AddStep(graph, prog, "gcl::allToAll", CollectiveOperator::LOCAL, group, data, result,
          debugContext);
  return result;
}

Tensor allToAllCrossReplica(Graph& graph, const Tensor& data, Sequence& prog,
                            const DebugContext& debugContext, const OptionFlags& options) {
  return allToAllCrossReplica(graph, data, prog, CommGroup(), debugContext, options);
}

// ---- between the IPUs of a replica

namespace {

void CheckRows(const char* function, const Graph& graph, const Tensor& data) {
  if (data.rank() >= 1 && data.dim(0) == graph.getTarget().getNumIPUs()) return;
  throw poplibs_error(std::string(function) + ": the tensor " + data.shapeToString() +
                      " needs a row for each of " + std::to_string(graph.getTarget().getNumIPUs()) +
                      " IPUs.");
}

// Adds a step that reduces elements [begin, end) of the rows.
void ReduceRows(Graph& graph, const Tensor& rows, size_t begin, size_t end, CollectiveOperator op,
                Sequence& prog, const Tensor& result, const DebugContext& context) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < rows.dim(0); ++i) inputs.push_back(rows[i].flatten().slice(begin, end));
  prog.add(poplar::core::libraryOp(graph, "gcl::reduceRows", Text(op, CommGroup()), inputs,
                                   {result}, context));
}

}  // namespace

Chunks reduceScatterWithinReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                                  Sequence& prog, const DebugContext& debugContext,
                                  const OptionFlags& options) {
  CheckOptions(options);
  CheckRows("reduceScatterWithinReplica", graph, data);
  CheckReduction("reduceScatterWithinReplica", data, op);
  const unsigned ipus = static_cast<unsigned>(data.dim(0));
  const size_t count = data.numElements() / ipus, part = (count + ipus - 1) / ipus;
  Chunks result(ipus);
  result.originalInput = data;
  for (unsigned i = 0; i < ipus; ++i) {
    const size_t begin = std::min(count, i * part), end = std::min(count, begin + part);
    // On the IPU of row i.
    const Tensor chunk =
        graph.clone(data[i].flatten().slice(begin, end), {debugContext, "reduceScatter"});
    if (begin < end) ReduceRows(graph, data, begin, end, op, prog, chunk, debugContext);
    result.chunks[i] = Chunk(chunk, i, static_cast<unsigned>(begin));
  }
  return result;
}

Tensor allGatherWithinReplica(Graph& graph, const Chunks& chunks, Sequence& prog,
                              const DebugContext& debugContext, const OptionFlags& options) {
  CheckOptions(options);
  std::vector<Chunk> sorted = chunks.chunks;
  std::sort(sorted.begin(), sorted.end(), [](const Chunk& a, const Chunk& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.index < b.index;
  });
  std::vector<Tensor> parts;
  for (const Chunk& chunk : sorted) parts.push_back(chunk.tensor.flatten());
  if (parts.empty()) throw poplibs_error("allGatherWithinReplica: there are no chunks.");
  const Tensor whole = poplar::concat(parts);
  const unsigned ipus = graph.getTarget().getNumIPUs();
  Tensor result;
  if (chunks.originalInput.valid()) {
    result = graph.clone(chunks.originalInput, {debugContext, "allGather"});
  } else {
    result = graph.addVariable(whole.elementType(), {ipus, whole.numElements()},
                               poplar::VariableMappingMethod::LINEAR, {debugContext, "allGather"});
  }
  prog.add(Copy(whole.broadcast(ipus, 0), result.flatten(), false, debugContext));
  return result;
}

Tensor allReduceWithinReplica(Graph& graph, const Tensor& data, CollectiveOperator op,
                              Sequence& prog, const DebugContext& debugContext,
                              const OptionFlags& options) {
  return allGatherWithinReplica(
      graph, reduceScatterWithinReplica(graph, data, op, prog, debugContext, options), prog,
      debugContext, options);
}

// ---- tiles

unsigned getMinIoTiles(const Graph& graph) {
  constexpr unsigned kLeast = 32;
  return std::min(kLeast, graph.getTarget().getTilesPerIPU());
}

std::vector<unsigned> perIPUTiles(const Graph& graph, unsigned offset, unsigned count, bool,
                                  bool tilePairs) {
  const unsigned tiles = graph.getTarget().getTilesPerIPU();
  if (offset + count > tiles || (tilePairs && (offset % 2 != 0 || count % 2 != 0))) {
    throw poplibs_error(
        "perIPUTiles: " + std::to_string(count) + " tiles from " + std::to_string(offset) + " on " +
        (offset + count > tiles ? "are more than the " + std::to_string(tiles) + " of an IPU."
                                : std::string("are no pairs of tiles.")));
  }
  std::vector<unsigned> result;
  for (unsigned i = 0; i < count; ++i) result.push_back(offset + i);
  return result;
}

}  // namespace gcl
