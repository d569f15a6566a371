// What programs write.
#ifndef poplar_core_WrittenVariables_hpp
#define poplar_core_WrittenVariables_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {
namespace core {

/// Returns whether a program writes into the variables that a tensor has elements of.
bool writesInto(const Graph &graph, const program::Program &program, const Tensor &tensor);

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_WrittenVariables_hpp
