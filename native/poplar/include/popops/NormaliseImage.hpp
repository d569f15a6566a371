// Pixels of three channels as numbers.
#ifndef popops_NormaliseImage_hpp
#define popops_NormaliseImage_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <cstddef>

namespace popops {

/// A tensor for `normaliseImage`: its last dimension are the three channels.
poplar::Tensor createNormaliseImageInput(poplar::Graph &graph, const poplar::Type &type,
                                         const poplar::ArrayRef<std::size_t> shape,
                                         const poplar::DebugContext &debugContext = {});
/// (x * inScale - offset) * scale for each channel, and a fourth channel of zeros. The result is of
/// the type of `scales`.
poplar::Tensor normaliseImage(poplar::Graph &graph, poplar::program::Sequence &seq,
                              poplar::Tensor tIn, float inScale, poplar::Tensor offsets,
                              poplar::Tensor scales, const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_NormaliseImage_hpp
