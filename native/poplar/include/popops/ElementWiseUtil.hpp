// Results of elementwise operations.
#ifndef popops_ElementWiseUtil_hpp
#define popops_ElementWiseUtil_hpp

#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>

#include <vector>

namespace popops {

/// A new tensor of the shape of the inputs, broadcast, mapped as the one of them that has this
/// shape and is on most tiles. If none has, it is mapped linearly.
poplar::Tensor createOutputForElementWiseOp(poplar::Graph &graph,
                                            const std::vector<poplar::Tensor> &inputs,
                                            const poplar::Type &outputType,
                                            const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_ElementWiseUtil_hpp
