#include "popops/Pad.hpp"

#include <algorithm>

#include "poputil/call.h"

namespace popops {

using padding::MappingMethod;
using poplar::Graph;
using poplar::Tensor;
using poputil::Call;
using Padding = std::vector<std::ptrdiff_t>;

namespace {

Call PadCall() { return Call("popops::pad", poplar::DebugContext(poplar::SourceLocation())); }

void CheckPadding(const Tensor& t, const Padding& lower, const Padding& upper) {
  if (lower.size() == t.rank() && upper.size() == t.rank()) return;
  PadCall().Fail(std::to_string(lower.size()) + " lower and " + std::to_string(upper.size()) +
                 " upper numbers are given for the shape " + poputil::TextOf(t.shape()) + ".");
}

void CheckDimension(const Tensor& t, unsigned dim) {
  if (dim < t.rank()) return;
  PadCall().Fail("dimension " + std::to_string(dim) + " does not exist in shape " +
                 poputil::TextOf(t.shape()) + ".");
}

// Cuts what negative numbers say, and sets these to 0.
Tensor Cut(const Tensor& t, std::ptrdiff_t* lower, std::ptrdiff_t* upper, unsigned dim) {
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(t.dim(dim));
  const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, -*lower);
  const std::ptrdiff_t end = size - std::max<std::ptrdiff_t>(0, -*upper);
  if (begin > end) {
    PadCall().Fail("more than the " + std::to_string(size) + " elements of dimension " +
                   std::to_string(dim) + " would be cut.");
  }
  *lower = std::max<std::ptrdiff_t>(0, *lower);
  *upper = std::max<std::ptrdiff_t>(0, *upper);
  return t.slice(static_cast<size_t>(begin), static_cast<size_t>(end), dim);
}

// As many copies of a scalar as the padding of one side has elements.
Tensor Filling(const Tensor& scalar, const Tensor& t, std::ptrdiff_t count, unsigned dim) {
  std::vector<size_t> shape = t.shape();
  shape[dim] = static_cast<size_t>(count);
  size_t elements = 1;
  for (const size_t size : shape) elements *= size;
  return scalar.reshape({1}).broadcast(static_cast<unsigned>(elements), 0).reshape(shape);
}

Tensor PadWithScalar(const Tensor& t, std::ptrdiff_t lower, std::ptrdiff_t upper, unsigned dim,
                     const Tensor& scalar) {
  CheckDimension(t, dim);
  if (scalar.numElements() != 1 || scalar.elementType() != t.elementType()) {
    PadCall().Fail("the value has to be one element of " + poputil::TextOf(t.elementType()) + ".");
  }
  const Tensor inner = Cut(t, &lower, &upper, dim);
  std::vector<Tensor> parts;
  if (lower > 0) parts.push_back(Filling(scalar, inner, lower, dim));
  parts.push_back(inner);
  if (upper > 0) parts.push_back(Filling(scalar, inner, upper, dim));
  return poplar::concat(parts, dim);
}

Tensor PadAll(Tensor t, const Padding& lower, const Padding& upper, const Tensor& scalar) {
  CheckPadding(t, lower, upper);
  for (unsigned d = 0; d < lower.size(); ++d) {
    t = PadWithScalar(t, lower[d], upper[d], d, scalar);
  }
  return t;
}

template <typename T>
Tensor Constant(Graph& graph, const Tensor& t, T value, MappingMethod method) {
  const Tensor constant = graph.addConstant(t.elementType(), {}, value, "padding");
  if (method == MappingMethod::NONE) return constant;
  unsigned tile = 0;
  if (method == MappingMethod::EDGE && t.numElements() > 0) {
    const auto mapping = graph.getTileMapping(t.flatten().slice(0, 1));
    while (mapping[tile].empty()) ++tile;
  }
  graph.setTileMapping(constant, tile);
  return constant;
}

}  // namespace

Tensor pad(Graph& graph, const Tensor& t, const Padding& paddingLower, const Padding& paddingUpper,
           float val, MappingMethod mappingMethod) {
  return PadAll(t, paddingLower, paddingUpper, Constant(graph, t, val, mappingMethod));
}

Tensor pad(Graph& graph, const Tensor& t, const Padding& paddingLower, const Padding& paddingUpper,
           int val, MappingMethod mappingMethod) {
  return PadAll(t, paddingLower, paddingUpper, Constant(graph, t, val, mappingMethod));
}

Tensor pad(Graph&, const Tensor& t, const Padding& paddingLower, const Padding& paddingUpper,
           const Tensor& val, MappingMethod) {
  return PadAll(t, paddingLower, paddingUpper, val);
}

Tensor pad(Graph& graph, const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper,
           unsigned dim, float val, MappingMethod mappingMethod) {
  return PadWithScalar(t, paddingLower, paddingUpper, dim, Constant(graph, t, val, mappingMethod));
}

Tensor pad(Graph& graph, const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper,
           unsigned dim, int val, MappingMethod mappingMethod) {
  return PadWithScalar(t, paddingLower, paddingUpper, dim, Constant(graph, t, val, mappingMethod));
}

Tensor pad(Graph&, const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper,
           unsigned dim, const Tensor& val, MappingMethod) {
  return PadWithScalar(t, paddingLower, paddingUpper, dim, val);
}

Tensor pad(const Tensor& t, const Padding& paddingLower, const Padding& paddingUpper,
           padding::Type type) {
  CheckPadding(t, paddingLower, paddingUpper);
  Tensor result = t;
  for (unsigned d = 0; d < paddingLower.size(); ++d) {
    result = pad(result, paddingLower[d], paddingUpper[d], d, type);
  }
  return result;
}

Tensor pad(const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper, unsigned dim,
           padding::Type type) {
  CheckDimension(t, dim);
  if (type == padding::Type::CONSTANT) {
    PadCall().Fail("padding with a constant needs the form with a graph and a value.");
  }
  const Tensor inner = Cut(t, &paddingLower, &paddingUpper, dim);
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(inner.dim(dim));
  const bool reflects = type == padding::Type::REFLECT;
  const std::ptrdiff_t most = std::max(paddingLower, paddingUpper);
  if (most > 0 && (size == 0 || (reflects && most >= size))) {
    PadCall().Fail("dimension " + std::to_string(dim) + " has too few elements (" +
                   std::to_string(size) + ") for a padding of " + std::to_string(most) + ".");
  }
  std::vector<unsigned> indices;
  for (std::ptrdiff_t i = -paddingLower; i < size + paddingUpper; ++i) {
    std::ptrdiff_t from = reflects ? (i < 0       ? -i
                                      : i >= size ? 2 * (size - 1) - i
                                                  : i)
                                   : std::min(std::max<std::ptrdiff_t>(i, 0), size - 1);
    indices.push_back(static_cast<unsigned>(from));
  }
  if (indices.empty()) return inner;
  return poplar::concat(inner.slices(poplar::ArrayRef<unsigned>(indices), dim), dim);
}

}  // namespace popops
