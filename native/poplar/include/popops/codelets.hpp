// Codelets of popops.
#ifndef popops_codelets_hpp
#define popops_codelets_hpp

#include <poplar/Graph.hpp>

namespace popops {

/// Makes the library's operations available to a graph. Here they are, without this call.
void addCodelets(poplar::Graph &graph);

}  // namespace popops

#endif  // popops_codelets_hpp
