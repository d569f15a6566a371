// NumPy's broadcasting of tensors, as views.
#ifndef poputil_Broadcast_hpp
#define poputil_Broadcast_hpp

#include <poplar/Tensor.hpp>

#include <cstddef>
#include <vector>

namespace poputil {

/// Puts dimensions of one element in front of the tensor of the smaller rank.
void expandToMatchRanks(poplar::Tensor &a, poplar::Tensor &b);

/// Broadcasts tensors to a shape, or to the one that they have together. Throws poplibs_error if
/// there is none.
void broadcastToMatch(poplar::Tensor &a, const std::vector<std::size_t> &shape);
void broadcastToMatch(poplar::Tensor &a, poplar::Tensor &b);
void broadcastToMatch(poplar::Tensor &a, poplar::Tensor &b, poplar::Tensor &c);
/// Whether that is possible.
bool canBroadcastToMatch(const poplar::Tensor &a, const poplar::Tensor &b);

}  // namespace poputil

#endif  // poputil_Broadcast_hpp
