// Orthogonal factors of matrices.
#ifndef poplin_experimental_QRFactorization_hpp
#define poplin_experimental_QRFactorization_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <array>
#include <cstddef>

namespace poplin {
namespace experimental {

/// Variables A {m, n} and Q {m, m}.
std::array<poplar::Tensor, 2> createQRFactorizationMatrices(
    poplar::Graph &graph, const poplar::Type &type, const std::size_t m, const std::size_t n,
    const poplar::DebugContext &debugContext);
/// A becomes the upper triangular R of A = Q * R; Q is written.
void QRFactorization(poplar::Graph &graph, poplar::Tensor &A, poplar::Tensor &Q,
                     poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
                     const poplar::OptionFlags &options = {});

}  // namespace experimental
}  // namespace poplin

#endif  // poplin_experimental_QRFactorization_hpp
