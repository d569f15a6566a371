// How the device prints tensors.
#ifndef TENSORFLOW_IPU_KERNELS_PRINT_FORMAT_H_
#define TENSORFLOW_IPU_KERNELS_PRINT_FORMAT_H_

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

// How a tensor is printed; by default as the documents say.
struct PrintLayout {
  // Of more elements, `edge_items` at each edge of each axis are shown.
  int64_t summarise_threshold = 1000;
  int64_t edge_items = 3;
  // Longer lines are split.
  int64_t max_line_width = 75;
  // Digits of real numbers.
  int64_t digits = 8;
  // "fixed" and "scientific" notation; "auto": fixed, or scientific where that would lose or pad
  // digits; "none": each number in the shorter one.
  std::string float_format = "auto";
  std::string separator = " ";
  std::string open_bracket = "[";
  std::string close_bracket = "]";
};

// Returns the elements of a tensor as text: in brackets, columns aligned.
std::string FormatTensor(const tensorflow::Tensor& tensor, const PrintLayout& layout);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_PRINT_FORMAT_H_
