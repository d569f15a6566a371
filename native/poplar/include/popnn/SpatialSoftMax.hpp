// Softmax over the positions of feature maps.
#ifndef popnn_SpatialSoftMax_hpp
#define popnn_SpatialSoftMax_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <utility>

namespace popnn {

/// The expected coordinates, from -1 to 1, of fields {N, height, width}: {N, 2}, rows first. Second
/// is the scalar of the temperature, by which fields are divided. With `disableSoftmax`, fields are
/// probabilities.
std::pair<poplar::Tensor, poplar::Tensor> spatialSoftMax2D(
    poplar::Graph &graph, poplar::program::Sequence &prog, const poplar::Tensor &fields,
    float temperature, bool disableSoftmax = false, const poplar::DebugContext &debugContext = {});

}  // namespace popnn

#endif  // popnn_SpatialSoftMax_hpp
