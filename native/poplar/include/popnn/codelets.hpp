// The codelets of popnn.
#ifndef popnn_codelets_hpp
#define popnn_codelets_hpp

#include <poplar/Graph.hpp>

namespace popnn {

/// Kernels of popnn come with the library, so that a graph needs nothing.
void addCodelets(poplar::Graph &graph);

}  // namespace popnn

#endif  // popnn_codelets_hpp
