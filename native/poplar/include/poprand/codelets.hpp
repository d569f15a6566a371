// The codelets of poprand.
#ifndef poprand_codelets_hpp
#define poprand_codelets_hpp

#include <poplar/Graph.hpp>

namespace poprand {

/// Kernels of poprand come with the library, so that a graph needs nothing.
void addCodelets(poplar::Graph &graph);

}  // namespace poprand

#endif  // poprand_codelets_hpp
