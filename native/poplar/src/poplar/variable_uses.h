// What a program reads and writes of single variables.
#ifndef TENSORFLOW_IPU_POPLAR_VARIABLE_USES_H_
#define TENSORFLOW_IPU_POPLAR_VARIABLE_USES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "graph_data.h"
#include "poplar/Program.hpp"

namespace poplar::core {

struct VariableUse {
  bool written = false;
  // Whether a read may see an element that the program has not written before.
  bool read_first = false;
  // Whether each run writes all elements.
  bool defined = false;
};

// Returns the use of each of the variables.
std::map<uint32_t, VariableUse> UsesOf(const GraphData& graph, const program::Program& program,
                                       const std::vector<uint32_t>& variables);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_VARIABLE_USES_H_
