// Attributes of ops as text.
#ifndef TENSORFLOW_IPU_POPART_SERIALISER_H_
#define TENSORFLOW_IPU_POPART_SERIALISER_H_

#include <string>

#include "popart/op.hpp"

namespace popart {

// Op, attributes and connected tensors: `appendAttributes` of the op decides what is in it.
std::string AttributesText(const Op& op);
// The same with `appendOutlineAttributes`: ops with equal texts can share code.
std::string OutlineText(const Op& op);

}  // namespace popart

#endif  // TENSORFLOW_IPU_POPART_SERIALISER_H_
