// Products of matrices of float.
#ifndef TENSORFLOW_IPU_POPLIN_PRODUCT_H_
#define TENSORFLOW_IPU_POPLIN_PRODUCT_H_

#include <cstddef>

namespace poplin {

// A matrix in row-major order, or its transpose.
struct MatrixView {
  const float* data;
  size_t stride;  // elements from row to row in memory
  bool transposed = false;
};

// c = factor * a * b, or c += factor * a * b, with a {m, k} and b {k, n}.
struct Product {
  size_t m, n, k;
  MatrixView a, b;
  float* c;
  size_t c_stride;
  float factor = 1;
  bool accumulate = false;
};

// On the calling thread.
void Multiply(const Product& product);
// On all cores.
void MultiplyParallel(const Product& product);

}  // namespace poplin

#endif  // TENSORFLOW_IPU_POPLIN_PRODUCT_H_
