// A product by Eigen. Each source that includes this is compiled for another processor, with
// another name for the namespace Eigen.
#include <Eigen/Core>

#include "poplin/product.h"

namespace poplin {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Input = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using Output = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

Input Stored(const MatrixView& view, size_t rows, size_t columns) {
  if (view.transposed) return Input(view.data, columns, rows, Eigen::OuterStride<>(view.stride));
  return Input(view.data, rows, columns, Eigen::OuterStride<>(view.stride));
}

template <typename A, typename B>
void Assign(const Product& product, const A& a, const B& b) {
  Output c(product.c, product.m, product.n, Eigen::OuterStride<>(product.c_stride));
  if (!product.accumulate) c.setZero();
  c.noalias() += product.factor * (a * b);
}

template <typename A>
void WithLeft(const Product& product, const A& a) {
  const Input b = Stored(product.b, product.k, product.n);
  if (product.b.transposed) {
    Assign(product, a, b.transpose());
  } else {
    Assign(product, a, b);
  }
}

void MultiplyHere(const Product& product) {
  const Input a = Stored(product.a, product.m, product.k);
  if (product.a.transposed) {
    WithLeft(product, a.transpose());
  } else {
    WithLeft(product, a);
  }
}

}  // namespace
}  // namespace poplin
