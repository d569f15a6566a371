// Evenly spaced values and grids of them.
#ifndef poplin_MeshGrid_hpp
#define poplin_MeshGrid_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <vector>

namespace poplin {

/// A constant of `count` values from `left` to `right`, both included.
poplar::Tensor linspace(poplar::Graph &graph, const poplar::Type &type, float left, float right,
                        std::size_t count, const poplar::DebugContext &debugContext = {});
/// The coordinates of a grid: x and y as views {ny, nx}.
std::vector<poplar::Tensor> meshgrid2d(poplar::Graph &graph, poplar::Tensor x, poplar::Tensor y);

}  // namespace poplin

#endif  // poplin_MeshGrid_hpp
