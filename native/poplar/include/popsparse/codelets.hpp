// The codelets of popsparse.
#ifndef popsparse_codelets_hpp
#define popsparse_codelets_hpp

#include <poplar/Graph.hpp>

namespace popsparse {

/// Kernels of popsparse come with the library, so that a graph needs nothing.
void addCodelets(poplar::Graph &graph);

}  // namespace popsparse

#endif  // popsparse_codelets_hpp
