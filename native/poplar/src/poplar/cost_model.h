// Cycles and memory of a graph, from its mapping and the figures of the chip.
#ifndef TENSORFLOW_IPU_POPLAR_COST_MODEL_H_
#define TENSORFLOW_IPU_POPLAR_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph_data.h"
#include "profile_data.h"
#include "target_data.h"

namespace poplar::core {

class CostModel {
 public:
  explicit CostModel(const GraphData& graph);

  // Each adds the bytes that tiles receive to the profile.
  StepProfile OfComputeSet(const ComputeSetData& set);
  StepProfile OfCopy(const std::string& name, const View& from, const View& to);
  StepProfile OfHostTransfer(const char* kind, const std::string& name, uint64_t bytes) const;
  // An op of a library, or a collective of all replicas.
  StepProfile OfOp(const ProgramNode& node, bool collective) const;

  // The profile of the graph, with the steps so far.
  ProfileData* profile() { return &profile_; }

 private:
  // Bytes that each tile receives in one step.
  class Received;

  void AddVariables();
  void AddVertices();
  uint64_t CyclesOf(uint32_t vertex, bool* estimated) const;
  uint64_t ExchangeCycles(uint64_t most_bytes) const;
  uint64_t CyclesAt(uint64_t bytes, double bytes_per_second) const;
  uint64_t ProductCycles(const ProgramNode& node) const;

  const GraphData& graph_;
  const Target target_;
  const Chip& chip_;
  ProfileData profile_;
  std::vector<uint64_t> zeros_[2];  // by tile
};

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_COST_MODEL_H_
