// Products with weights of splines.
#ifndef popops_SplineWeighting_hpp
#define popops_SplineWeighting_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace popops {

/// For each edge, its features {E, In} times the weights {K, In, Out} at its indices {E, S}, each
/// times its basis {E, S}: a tensor {E, Out}.
poplar::Tensor splineWeighting(poplar::Graph &graph, const poplar::Tensor &input,
                               const poplar::Tensor &weight, const poplar::Tensor &basis,
                               const poplar::Tensor &weightIndex, poplar::program::Sequence &prog,
                               const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_SplineWeighting_hpp
