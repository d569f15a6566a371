// Parameters of gathers and scatters of windows.
#ifndef TENSORFLOW_IPU_POPOPS_WINDOW_OPS_H_
#define TENSORFLOW_IPU_POPOPS_WINDOW_OPS_H_

#include <string>
#include <vector>

#include "popops/ops.h"

namespace popops {

struct WindowParameters {
  static WindowParameters Read(const std::string& text) {
    ParameterReader reader(text);
    WindowParameters parameters;
    parameters.sizes = reader.List();
    parameters.dims = reader.List();
    return parameters;
  }
  std::string text() const { return ParameterWriter().Add(sizes).Add(dims).text(); }

  // Of a window, in each dimension of the tensor.
  std::vector<size_t> sizes;
  // The dimensions that an index vector has numbers for.
  std::vector<size_t> dims;
};

}  // namespace popops

#endif  // TENSORFLOW_IPU_POPOPS_WINDOW_OPS_H_
