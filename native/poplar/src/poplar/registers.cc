// Steps that count cycles, and steps that read and write registers.
#include "registers.h"

#include <memory>
#include <string>
#include <utility>

#include "access.h"
#include "graph_data.h"
#include "poplar/CSRFunctions.hpp"
#include "poplar/CycleCount.hpp"
#include "poplar/RandomSeed.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using core::Access;
using core::ProgramKind;
using core::ProgramNode;
using program::Copy;
using program::Program;
using program::Sequence;

namespace {

Program Step(ProgramKind kind, std::vector<Tensor> inputs, const Tensor& output,
             const DebugContext& context, unsigned clear = 0, unsigned set = 0) {
  auto node = std::make_shared<ProgramNode>();
  node->kind = kind;
  node->name = context.getPathName();
  node->location = context.location();
  node->inputs = std::move(inputs);
  node->outputs = {output};
  node->clear = clear;
  node->set = set;
  Program program;
  Access::Node(program) = std::move(node);
  return program;
}

Tensor Counter(Graph& graph, unsigned tile, const DebugContext& context) {
  const Tensor counter = graph.addVariable(UNSIGNED_INT, {2}, {context, "cycles"});
  graph.setTileMapping(counter, tile);
  return counter;
}

unsigned Bits(const FloatingPointBehaviour& b) {
  return b.inv * core::kTrapInvalid | b.div0 * core::kTrapDivision | b.oflo * core::kTrapOverflow |
         b.esr * core::kStochasticRounding | b.nanoo * core::kNanOnOverflow;
}

// The variable that stands for a register, made where it is needed first.
Tensor Register(Graph& graph, core::ViewPtr* view, const std::vector<size_t>& shape,
                const char* name) {
  if (*view == nullptr) {
    Graph whole = graph.getTopLevelGraph();
    *view =
        Access::View(whole.addVariable(UNSIGNED_INT, shape, VariableMappingMethod::LINEAR, {name}));
  }
  return Access::MakeTensor(*view);
}

Tensor FloatingPointRegister(Graph& graph) {
  core::GraphData* const data = Access::Data(graph);
  const bool is_new = data->floating_point_register == nullptr;
  const Tensor result = Register(graph, &data->floating_point_register, {1}, "floatingPoint");
  if (is_new) graph.setInitialValue(result, core::kRegisterAtStart);
  return result;
}

Tensor SeedRegisters(Graph& graph) {
  core::GraphData* const data = Access::Data(graph);
  const size_t tiles = data->target.getNumTiles(), workers = data->target.getNumWorkerContexts();
  const bool is_new = data->seed_registers == nullptr;
  const Tensor result = Register(graph, &data->seed_registers, {tiles, workers, 4}, "hwSeeds");
  if (!is_new) return result;
  std::vector<unsigned> state(result.numElements());
  for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<unsigned>(i + 1) * 0x9e3779b9u;
  graph.setInitialValue(result, ArrayRef<unsigned>(state));
  return result;
}

}  // namespace

Tensor cycleCount(Graph& graph, Sequence& prog, unsigned tile, SyncType,
                  const DebugContext& debugContext) {
  const Tensor start = Counter(graph, tile, debugContext);
  const Tensor result = Counter(graph, tile, debugContext);
  prog = Sequence({Step(ProgramKind::kCycleStamp, {}, start, debugContext), prog,
                   Step(ProgramKind::kCycleStamp, {start}, result, debugContext)},
                  debugContext);
  return result;
}

Tensor cycleCount(Graph& graph, Sequence& prog, unsigned tile, const DebugContext& debugContext) {
  return cycleCount(graph, prog, tile, SyncType::INTERNAL, debugContext);
}

std::vector<Tensor> cycleStamp(Graph& graph, Sequence& prog, const std::vector<unsigned>& tiles,
                               SyncType, const DebugContext& debugContext) {
  std::vector<Tensor> results;
  for (const unsigned tile : tiles) {
    results.push_back(Counter(graph, tile, debugContext));
    prog.add(Step(ProgramKind::kCycleStamp, {}, results.back(), debugContext));
  }
  return results;
}

std::vector<Tensor> cycleStamp(Graph& graph, Sequence& prog, const std::vector<unsigned>& tiles,
                               const DebugContext& debugContext) {
  return cycleStamp(graph, prog, tiles, SyncType::INTERNAL, debugContext);
}

Tensor cycleStamp(Graph& graph, Sequence& prog, unsigned tile, SyncType syncType,
                  const DebugContext& debugContext) {
  return cycleStamp(graph, prog, std::vector<unsigned>{tile}, syncType, debugContext)[0];
}

Tensor cycleStamp(Graph& graph, Sequence& prog, unsigned tile, const DebugContext& debugContext) {
  return cycleStamp(graph, prog, tile, SyncType::INTERNAL, debugContext);
}

void setFloatingPointBehaviour(Graph& graph, Sequence& prog,
                               const FloatingPointBehaviour& behaviour,
                               const DebugContext& debugContext) {
  prog.add(Step(ProgramKind::kFloatingPoint, {}, FloatingPointRegister(graph), debugContext,
                Bits(!behaviour), Bits(behaviour)));
}

void setFloatingPointBehaviour(Graph& graph, Sequence& prog, const Tensor& behaviour,
                               const DebugContext& debugContext) {
  const Tensor target = FloatingPointRegister(graph);
  prog.add(Copy(behaviour.flatten(), target, false, debugContext));
  prog.add(Step(ProgramKind::kFloatingPoint, {}, target, debugContext));
}

Tensor getAndModifyFloatingPointBehaviour(Graph& graph, Sequence& prog,
                                          const FloatingPointBehaviour& clear,
                                          const FloatingPointBehaviour& set,
                                          const DebugContext& debugContext) {
  const Tensor target = FloatingPointRegister(graph);
  const Tensor before = graph.clone(target, {debugContext, "floatingPointBehaviour"});
  prog.add(Copy(target, before, false, debugContext));
  prog.add(Step(ProgramKind::kFloatingPoint, {}, target, debugContext, Bits(clear), Bits(set)));
  return before;
}

void setStochasticRounding(Graph& graph, Sequence& prog, bool enable,
                           const DebugContext& debugContext) {
  prog.add(Step(ProgramKind::kFloatingPoint, {}, FloatingPointRegister(graph), debugContext,
                enable ? 0 : core::kStochasticRounding, enable ? core::kStochasticRounding : 0));
}

Tensor getHwSeeds(Graph& graph, Sequence& prog, const DebugContext& debugContext) {
  const Tensor registers = SeedRegisters(graph);
  const Tensor seeds = graph.clone(registers, {debugContext, "hwSeeds"});
  prog.add(Copy(registers, seeds, false, debugContext));
  return seeds;
}

void setHwSeeds(Graph& graph, const Tensor& hwSeeds, Sequence& prog,
                const DebugContext& debugContext) {
  const Tensor registers = SeedRegisters(graph);
  if (hwSeeds.elementType() != UNSIGNED_INT || hwSeeds.numElements() != registers.numElements()) {
    throw poplar_error("setHwSeeds: expected UNSIGNED_INT " + registers.shapeToString() +
                       ", as getHwSeeds returns, received " +
                       hwSeeds.elementType().toString().cloneAsString() + " " +
                       hwSeeds.shapeToString() + ".");
  }
  prog.add(Copy(hwSeeds.flatten(), registers.flatten(), false, debugContext));
}

}  // namespace poplar
