// Factors of symmetric matrices.
#ifndef poplin_Cholesky_hpp
#define poplin_Cholesky_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/PlanningCache.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace poplin {

/// The lower factor L with a = L * L', or the upper one U with a = U' * U, of {..., n, n}. Only
/// that half of `a` is read; the other half of the factor is zero.
poplar::Tensor cholesky(poplar::Graph &graph, const poplar::Tensor &a, bool lower,
                        poplar::program::Sequence &prog,
                        const poplar::DebugContext &debugContext = {},
                        poplar::OptionFlags options = {}, PlanningCache *cache = nullptr);
void choleskyInPlace(poplar::Graph &graph, const poplar::Tensor &a, bool lower,
                     poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
                     poplar::OptionFlags options = {}, PlanningCache *cache = nullptr);
poplar::Tensor createCholeskyInput(poplar::Graph &graph, const poplar::Type &type,
                                   const std::vector<std::size_t> &shape, bool lower,
                                   const poplar::DebugContext &debugContext,
                                   const poplar::OptionFlags &options = {},
                                   PlanningCache *cache = nullptr);
/// Products to plan before: none.
std::vector<std::pair<MatMulParams, poplar::OptionFlags>> getCholeskyMatMulPrePlanParameters(
    const poplar::Type &type, const std::vector<std::size_t> &shape, bool lower,
    poplar::OptionFlags options);

}  // namespace poplin

#endif  // poplin_Cholesky_hpp
