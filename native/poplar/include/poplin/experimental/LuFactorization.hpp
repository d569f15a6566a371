// Factors of matrices.
#ifndef poplin_experimental_LuFactorization_hpp
#define poplin_experimental_LuFactorization_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <utility>

namespace poplin {
namespace experimental {

/// L {m, m} with a unit diagonal and U {m, n} with input = L * U. Rows are not exchanged.
std::pair<poplar::Tensor, poplar::Tensor> LUFactorization(
    poplar::Graph &graph, poplar::Tensor &input, poplar::program::Sequence &prog,
    const poplar::DebugContext &debugContext = {});

}  // namespace experimental
}  // namespace poplin

#endif  // poplin_experimental_LuFactorization_hpp
