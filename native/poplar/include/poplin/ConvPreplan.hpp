// Plans of convolutions and products at once.
#ifndef poplin_ConvPreplan_hpp
#define poplin_ConvPreplan_hpp

#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>

#include <set>

namespace poplin {

/// The convolutions that products are planned as: none here.
std::set<ConvPlanParams> matMulGetConvPlanParams(const std::set<MatMulPlanParams> &matmuls,
                                                 MatMulToConvOptions &matmulToConvOpts);

/// Checks options: neither needs a plan on the CPU.
void preplan(const std::set<ConvPlanParams> &convs, const std::set<MatMulPlanParams> &matmuls,
             PlanningCache &cache);
void preplan(poplar::Graph &graph, const std::set<ConvPlanParams> &convs,
             const std::set<MatMulPlanParams> &matmuls, PlanningCache &cache);

}  // namespace poplin

#endif  // poplin_ConvPreplan_hpp
