#include "poplin/product.h"

#include <algorithm>

#include "poplar/core/LibraryOp.hpp"

namespace poplin {

void MultiplyBase(const Product& product);
void MultiplyAvx2(const Product& product);
void MultiplyAvx512(const Product& product);

namespace {

constexpr size_t kRowsOfAPart = 16;
// Multiplications below which a second thread costs more than it saves.
constexpr size_t kSmallProduct = 1 << 16;

using Function = void (*)(const Product&);

Function ForThisProcessor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
    return MultiplyAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return MultiplyAvx2;
#endif
  return MultiplyBase;
}

const float* At(const MatrixView& view, size_t row, size_t column) {
  return view.transposed ? view.data + column * view.stride + row
                         : view.data + row * view.stride + column;
}

Product Rows(const Product& product, size_t begin, size_t end) {
  Product part = product;
  part.m = end - begin;
  part.a.data = At(product.a, begin, 0);
  part.c = product.c + begin * product.c_stride;
  return part;
}

Product Columns(const Product& product, size_t begin, size_t end) {
  Product part = product;
  part.n = end - begin;
  part.b.data = At(product.b, 0, begin);
  part.c = product.c + begin;
  return part;
}

}  // namespace

void Multiply(const Product& product) {
  static const Function multiply = ForThisProcessor();
  if (product.m != 0 && product.n != 0) multiply(product);
}

void MultiplyParallel(const Product& product) {
  if (product.m * product.n * product.k <= kSmallProduct) return Multiply(product);
  const bool rows = product.m >= product.n;
  const size_t count = rows ? product.m : product.n;
  poplar::core::parallelFor(count, kRowsOfAPart, [&](size_t begin, size_t end) {
    Multiply(rows ? Rows(product, begin, end) : Columns(product, begin, end));
  });
}

}  // namespace poplin
