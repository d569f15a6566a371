// The text of tensors.
#ifndef TENSORFLOW_IPU_POPLAR_PRINT_H_
#define TENSORFLOW_IPU_POPLAR_PRINT_H_

#include <string>
#include <vector>

#include "poplar/PrintTensorFmt.hpp"
#include "poplar/Type.hpp"

namespace poplar::core {

// A tensor as PrintTensor writes it, without its title.
std::string TensorText(Type type, const std::vector<size_t>& shape, const void* data,
                       const PrintTensorFmt& format);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_PRINT_H_
