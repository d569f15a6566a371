// What is known of a program without running it, for reports.
//
// Memory of variables, vertices and bytes that tiles receive follow from the mapping: they are
// exact. Cycles of vertices are estimates of the user, or modelled as the rest of the time is.
#ifndef TENSORFLOW_IPU_POPLAR_PROFILE_DATA_H_
#define TENSORFLOW_IPU_POPLAR_PROFILE_DATA_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poplar::core {

// One step of a program.
struct StepProfile {
  std::string kind, name;
  uint64_t compute = 0, exchange = 0, sync = 0;  // cycles of the slowest tile
  uint64_t bytes = 0;                            // that tiles or the host receive

  uint64_t Cycles() const { return compute + exchange + sync; }
};

struct ComputeSetProfile {
  std::string name;
  std::map<std::string, uint64_t> vertices;  // by type
  uint64_t estimated = 0;                    // vertices with an estimate of the user
  std::vector<uint64_t> cycles_by_tile;      // of tiles with vertices, in order
};

struct VariableProfile {
  std::string name, type;
  uint64_t elements, bytes, tiles;
  bool constant;
};

struct ProfileData {
  uint64_t vertices = 0, edges = 0, variables = 0, compute_sets = 0;
  // By tile. Exchange is that of each step once.
  std::vector<uint64_t> variable_bytes, constant_bytes, vertex_bytes, vertex_counts, exchange_bytes;
  std::vector<VariableProfile> largest_variables;
  std::vector<ComputeSetProfile> used_compute_sets;
  std::vector<StepProfile> steps;  // the first stands for control flow
};

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_PROFILE_DATA_H_
