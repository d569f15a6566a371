// Tables of performance estimates.
#ifndef poputil_cyclesTables_hpp
#define poputil_cyclesTables_hpp

#include <poplar/Graph.hpp>
#include <poplar/PerfEstimateFunc.hpp>
#include <poputil/VertexTemplates.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace poputil {
namespace internal {

/// Types of vertices with their estimators.
using PerfEstimatorTable = std::vector<std::pair<std::string, poplar::PerfEstimateFunc>>;

/// Registers all estimators of a table.
inline void registerPerfFunctions(poplar::Graph &graph, const PerfEstimatorTable &table) {
  for (const auto &entry : table) graph.registerPerfEstimator(entry.first, entry.second);
}

}  // namespace internal
}  // namespace poputil

/// The estimator of a codelet, and entries of a table for it: with arguments of its template, or
/// without.
#define CYCLE_ESTIMATOR_NAME(codelet) getCyclesEstimateFor##codelet
#define CYCLE_ESTIMATOR_ENTRY(ns, codelet, ...)                                           \
  {poputil::templateVertex(#ns "::" #codelet, __VA_ARGS__),                               \
   std::bind(CYCLE_ESTIMATOR_NAME(codelet), std::placeholders::_1, std::placeholders::_2, \
             __VA_ARGS__)}
#define CYCLE_ESTIMATOR_ENTRY_NOPARAMS(ns, codelet) \
  {#ns "::" #codelet, CYCLE_ESTIMATOR_NAME(codelet)}

#endif  // poputil_cyclesTables_hpp
