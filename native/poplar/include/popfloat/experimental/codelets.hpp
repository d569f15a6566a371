// The codelets of popfloat.
#ifndef popfloat_experimental_codelets_hpp
#define popfloat_experimental_codelets_hpp

#include <poplar/Graph.hpp>

namespace popfloat {
namespace experimental {

/// Kernels come with the library, so that a graph needs nothing.
void addCodelets(poplar::Graph &graph);

}  // namespace experimental
}  // namespace popfloat

#endif  // popfloat_experimental_codelets_hpp
