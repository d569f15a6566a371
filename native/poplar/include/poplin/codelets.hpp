// The codelets of poplin.
#ifndef poplin_codelets_hpp
#define poplin_codelets_hpp

#include <poplar/Graph.hpp>

namespace poplin {

/// Kernels of poplin come with the library, so that a graph needs nothing.
void addCodelets(poplar::Graph &graph);

}  // namespace poplin

#endif  // poplin_codelets_hpp
