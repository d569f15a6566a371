// Functions of poputil by name, for the programs of test_values.py. Numbers are returned as
// tensors.
#include <poputil/Broadcast.hpp>
#include <poputil/DebugInfo.hpp>
#include <poputil/GraphFunction.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/Util.hpp>
#include <poputil/VarStructure.hpp>
#include <poputil/cyclesTables.hpp>

#include "../harness.hpp"

using harness::Arguments;
using poplar::Interval;
using poplar::Tensor;
using poplar::program::Sequence;
using Intervals = std::vector<Interval>;

namespace {

poplar::VertexPerfEstimate getCyclesEstimateForSum(const poplar::VertexIntrospector &,
                                                   const poplar::Target &,
                                                   const poplar::Type &type) {
  return poplar::VertexPerfEstimate(type == poplar::HALF ? 5 : 9);
}

Tensor numbers(Arguments &a, const std::vector<int> &values, std::size_t columns) {
  const Tensor t = a.graph.addConstant(poplar::INT, {values.size() / columns, columns}, values);
  a.graph.setTileMapping(t, 0);
  return t;
}

// A row of tile, begin and end for each interval.
Tensor rows(Arguments &a, const std::vector<Intervals> &mapping) {
  std::vector<int> values;
  for (std::size_t tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval &interval : mapping[tile]) {
      for (const std::size_t n : {tile, interval.begin(), interval.end()}) {
        values.push_back(static_cast<int>(n));
      }
    }
  }
  return numbers(a, values, 3);
}

Intervals intervals(Arguments &a) {
  Intervals result;
  const std::vector<std::size_t> ends = a.list();
  for (std::size_t i = 0; i < ends.size(); i += 2) result.push_back({ends[i], ends[i + 1]});
  return result;
}

void addMappings(harness::Functions &f) {
  f["mapTensorLinearly"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    if (a.isNumber()) {
      const unsigned least = a.natural();
      poputil::mapTensorLinearly(a.graph, t, least, a.natural());
    } else {
      poputil::mapTensorLinearly(a.graph, t);
    }
    return rows(a, a.graph.getTileMapping(t));
  };
  f["mapTensorLinearlyWithOffset"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const unsigned offset = a.natural();
    poputil::mapTensorLinearlyWithOffset(a.graph, t, offset, a.natural() != 0);
    return rows(a, a.graph.getTileMapping(t));
  };
  f["calcLinearTileMapping"] = [](Arguments &a) {
    const std::vector<std::size_t> shape = a.list();
    const unsigned least = a.natural(), grain = a.natural(), offset = a.natural();
    const bool ascending = a.natural() != 0;
    const auto mapping =
        poputil::calcLinearTileMapping(a.graph, shape, least, grain, offset, ascending);
    const poplar::Target &target = a.graph.getTarget();
    if (mapping != poputil::calcLinearTileMapping(target, shape, least, grain, offset, ascending)) {
      std::abort();
    }
    return rows(a, mapping);
  };
  f["transformTileIndex"] = [](Arguments &a) {
    const unsigned tile = a.natural(), tiles = a.natural(), offset = a.natural();
    const bool ascending = a.natural() != 0;
    const unsigned there = poputil::transformTileIndex(tile, tiles, offset, ascending);
    const unsigned back = poputil::invTransformTileIndex(there, tiles, offset, ascending);
    return numbers(a, {static_cast<int>(there), static_cast<int>(back)}, 2);
  };
  f["getTileImbalance"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    return numbers(a, {static_cast<int>(poputil::getTileImbalance(a.graph, t))}, 1);
  };
  f["dimIsSplitOverTiles"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const unsigned dim = a.natural();
    return numbers(a,
                   {poputil::dimIsSplitOverTiles(a.graph, t, dim),
                    poputil::dimIsSplitOverIPUs(a.graph, t, dim)},
                   2);
  };
  f["setTiles"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    for (const std::string &tile : a.rest()) {
      const unsigned i = static_cast<unsigned>(std::stoul(tile));
      a.graph.setTileMapping(t[i], i % 4);
    }
    return Tensor();
  };
  f["createBroadcastOperand"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const Tensor operand = poputil::createBroadcastOperand(a.graph, t, poplar::FLOAT, a.natural());
    return rows(a, a.graph.getTileMapping(operand));
  };
  // Two tiles use a variable: one the first six elements, another from the fourth on.
  f["TensorUseTracker"] = [](Arguments &a) {
    const Tensor t = a.graph.addVariable(poplar::FLOAT, {10});
    poputil::TensorUseTracker tracker(16), other(16);
    tracker.add(a.graph, 2, t.slice(0, 6));
    other.add(a.graph, 5, t.slice(4, 9));
    tracker.add(other);
    tracker.mapTensorsByUse(a.graph, 1, 1, true);
    return rows(a, a.graph.getTileMapping(t));
  };
}

void addSplits(harness::Functions &f) {
  f["splitRegions"] = [](Arguments &a) {
    const Intervals regions = intervals(a);
    const unsigned grain = a.natural(), parts = a.natural(), least = a.natural();
    return rows(a, poputil::splitRegions(regions, grain, parts, least));
  };
  f["splitRegionsBetweenWorkers"] = [](Arguments &a) {
    const Intervals regions = intervals(a);
    const unsigned grain = a.natural();
    const poplar::Target &target = a.graph.getTarget();
    return rows(a, poputil::splitRegionsBetweenWorkers(target, regions, grain, a.natural()));
  };
  // The lists of the second part, of two.
  f["splitLists"] = [](Arguments &a) {
    const Intervals first = intervals(a), second = intervals(a);
    const unsigned longest = a.natural();
    return rows(a, poputil::splitRegions({first, second}, 1, 2, 0, UINT_MAX, longest).at(1));
  };
  f["mergeAdjacentRegions"] = [](Arguments &a) {
    Intervals regions = intervals(a);
    poputil::mergeAdjacentRegions(regions);
    return rows(a, {regions});
  };
  f["calculateUnshufflingIntervals"] = [](Arguments &a) {
    return rows(a, {poputil::calculateUnshufflingIntervals(intervals(a))});
  };
  f["unflattenIndex"] = [](Arguments &a) {
    const std::vector<std::size_t> shape = a.list();
    const auto index = poputil::unflattenIndex(shape, static_cast<std::size_t>(a.natural()));
    std::vector<int> values(index.begin(), index.end());
    values.push_back(static_cast<int>(poputil::flattenIndex(shape, index)));
    return numbers(a, values, values.size());
  };
  f["balancedPartition"] = [](Arguments &a) {
    const int bound = static_cast<int>(a.number());
    const std::vector<int> sizes = poputil::balancedPartition(bound, static_cast<int>(a.number()));
    return numbers(a, sizes, sizes.size());
  };
}

void addTensors(harness::Functions &f) {
  f["duplicate"] = [](Arguments &a) { return poputil::duplicate(a.graph, a.tensor(), a.prog); };
  // Copies to the first IPU and to a part of the graph, {4, shape...}.
  f["copiesToIpu"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    poplar::Graph part = a.graph.createVirtualGraph(0, 2);
    Tensor from, to;
    const Tensor other = poputil::createIpuCopy(a.graph, t, 0, from, to);
    const Tensor clone = poputil::cloneToIpu(a.graph, t, 0);
    const Tensor inside = poputil::cloneToGraph(a.graph, part, t);
    a.prog.add(poplar::program::Copy(from, to));
    a.prog.add(poplar::program::Copy(t, clone));
    a.prog.add(poplar::program::Copy(t, inside));
    const Tensor copy = poputil::copyToIpu(a.graph, t, a.prog, 0);
    const auto mapping = poputil::calcLinearTileMappingAndNewOffset(a.graph, copy, 1);
    a.graph.setTileMapping(copy, mapping.first);
    return poplar::concat(
        {other.expand({0}), clone.expand({0}), inside.expand({0}), copy.expand({0})});
  };
  f["cloneN"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    return poputil::cloneN(a.graph, t, a.natural());
  };
  f["cloneAndExpandAliasing"] = [](Arguments &a) {
    const auto result = poputil::cloneAndExpandAliasing(a.graph, a.tensor(), 3);
    return rows(a, a.graph.getTileMapping(result.first));
  };
  f["factorDims"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const std::vector<std::size_t> factors = a.list();
    const unsigned start = a.natural();
    const Tensor result = poputil::factorDims(t, factors, start);
    const unsigned count = static_cast<unsigned>(factors.size());
    if (poputil::unfactorDims(result, count, start) != t) std::abort();
    return result;
  };
  f["broadcastToMatch"] = [](Arguments &a) {
    Tensor first = a.tensor(), second = a.tensor();
    if (!poputil::canBroadcastToMatch(first, second)) std::abort();
    poputil::broadcastToMatch(first, second);
    return poplar::concat(first, second);
  };
  f["broadcastThree"] = [](Arguments &a) {
    Tensor first = a.tensor(), second = a.tensor(), third = a.tensor();
    poputil::broadcastToMatch(first, second, third);
    return poplar::concat({first, second, third});
  };
  f["broadcastToShape"] = [](Arguments &a) {
    Tensor t = a.tensor();
    poputil::broadcastToMatch(t, a.list());
    return t;
  };
  f["detectInnermostGrouping"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    return numbers(a, {static_cast<int>(poputil::detectInnermostGrouping(a.graph, t))}, 1);
  };
  f["detectDimGroupings"] = [](Arguments &a) {
    std::vector<int> values;
    for (const auto &grouping : poputil::detectDimGroupings(a.graph, a.tensor())) {
      values.push_back(static_cast<int>(grouping.first));
      values.push_back(static_cast<int>(grouping.second));
    }
    return numbers(a, values, 2);
  };
  // Each partition is one region of memory, and holds the sum of its index.
  f["createPartitionableTensor"] = [](Arguments &a) {
    const std::vector<std::size_t> shape = a.list(), partitions = a.list();
    const Tensor t = poputil::createPartitionableTensor(a.graph, poplar::INT, shape, partitions);
    a.graph.setTileMapping(t, 0);
    poputil::iterateTensorPartitions(
        t, partitions, [&](const std::vector<std::size_t> &index, const Tensor &part) {
          if (part.numElements() > 0 && part.getContiguousRegions().size() != 1) std::abort();
          int sum = 0;
          for (const std::size_t i : index) sum += static_cast<int>(i);
          a.graph.setInitialValue(part, sum);
        });
    return t;
  };
}

void addGraphFunctions(harness::Functions &f) {
  // Swaps two tensors, by copies.
  f["VoidFunction"] = [](Arguments &a) {
    using namespace poputil::graphfn;
    const bool inlined = a.natural() != 0;
    std::vector<Tensor> first = {a.tensor(), a.tensor()}, second = {a.tensor(), a.tensor()};
    VoidFunction swap(
        a.graph, {inout(first[0], "a"), inout(first[1])},
        [&](std::vector<Tensor> &args, Sequence &prog) {
          const Tensor copy = poputil::duplicate(a.graph, args[0], prog);
          prog.add(poplar::program::Copy(args[1], args[0]));
          prog.add(poplar::program::Copy(copy, args[1]));
        },
        inlined);
    swap(first, a.prog);
    swap(second, a.prog);
    return Tensor();
  };
  f["TensorFunction"] = [](Arguments &a) {
    using namespace poputil::graphfn;
    std::vector<Tensor> args = {a.tensor()};
    TensorFunction twice(a.graph, {input(args[0])}, [&](std::vector<Tensor> &in, Sequence &prog) {
      return poplar::concat(in[0], poputil::duplicate(a.graph, in[0], prog));
    });
    return twice(args, a.prog);
  };
  f["ProgramFunction"] = [](Arguments &a) {
    using namespace poputil::graphfn;
    std::vector<Tensor> args = {a.tensor(), a.tensor()};
    ProgramFunction copy(a.graph, {input(args[0]), output(args[1])},
                         [](std::vector<Tensor> &t) { return poplar::program::Copy(t[0], t[1]); });
    a.prog.add(copy(args));
    return Tensor();
  };
  f["PoplibsOpDebugInfo"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const unsigned count = 3;
    poputil::PoplibsOpDebugInfo di("outer", DI_ARGS(t, count));
    const Tensor result = a.graph.clone(t, {di, "inner"});
    di.addOutputs(DI_ARGS(result));
    di.addOutput(result);
    if (result.getDebugStr() != "outer/inner") std::abort();
    return t;
  };
  // The bits of both kinds of metadata.
  f["createMetadataTensors"] = [](Arguments &a) {
    const auto format = poplar::QuarterMetadata::Format::F152;
    const Tensor both =
        poplar::concat(poputil::createConstantMetadataTensor(a.graph, format, 5).reshape({1}),
                       poputil::createVariableMetadataTensor(a.graph, format, 5).reshape({1}));
    return both.reinterpret(poplar::UNSIGNED_CHAR);
  };
  f["cyclesTables"] = [](Arguments &a) {
    const poputil::internal::PerfEstimatorTable table = {
        CYCLE_ESTIMATOR_ENTRY(ns, Sum, poplar::HALF),
        CYCLE_ESTIMATOR_ENTRY(ns, Sum, poplar::FLOAT)};
    poputil::internal::registerPerfFunctions(a.graph, table);
    if (table[1].first != "ns::Sum<float>") std::abort();
    const poplar::VertexIntrospector vertex;
    const auto cycles = [&](unsigned i) {
      return static_cast<int>(table[i].second(vertex, a.graph.getTarget()).cycles);
    };
    return numbers(a, {cycles(0), cycles(1)}, 2);
  };
  f["castToDeviceHalfValue"] = [](Arguments &a) {
    const double value = a.number();
    const poplar::Target &target = a.graph.getTarget();
    const double half = poputil::castToDeviceHalfValue(target, value);
    const bool kept =
        poputil::checkAccuracyWhenCast(target, value, poplar::FLOAT, poplar::HALF, 1e-6);
    const Tensor t = a.graph.addConstant<double>(poplar::FLOAT, {2}, {half, kept ? 1.0 : 0.0});
    a.graph.setTileMapping(t, 0);
    return t;
  };
}

}  // namespace

int main() {
  harness::Functions functions;
  addMappings(functions);
  addSplits(functions);
  addTensors(functions);
  addGraphFunctions(functions);
  return harness::main(functions);
}
