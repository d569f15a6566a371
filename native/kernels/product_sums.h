// Sums of matrix products, which are never made one by one.
#ifndef TENSORFLOW_IPU_KERNELS_PRODUCT_SUMS_H_
#define TENSORFLOW_IPU_KERNELS_PRODUCT_SUMS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "engine/collective.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// The factors of a product of float32 matrices, in the order in which AddProducts reads them.
class PackedProduct {
 public:
  // Copies the factors of `product`. Uses `ctx` to allocate memory.
  static tensorflow::Status Pack(const Product& product, tensorflow::OpKernelContext* ctx,
                                 PackedProduct* packed);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t depth() const { return depth_; }
  int64_t TotalBytes() const { return left_.TotalBytes() + right_.TotalBytes(); }

  // The rows of the first factor that make some rows of the product: for each number k of the
  // dimension that is summed over, kRows elements.
  const float* Left(int64_t block) const;
  // The same of the columns of the second factor: for each k, kColumns elements.
  const float* Right(int64_t block) const;

  // Elements of a block of the product.
  static constexpr int kRows = 6, kColumns = 16;

 private:
  int64_t rows_ = 0, columns_ = 0, depth_ = 0;
  tensorflow::Tensor left_, right_;
};

// Writes to `output` the sum of `before`, which is null at the beginning, and of `products` in
// their order, divided by `divisor`. `output` may have the buffer of `before`. A block of the
// output is finished before the next, so the output is written once. `workers` help.
//
// An element of a product is made in the order of the dimension that is summed over, each step
// rounded once. These are the bits of TensorFlow's products that FindFactoredSums chooses
// (engine/factored_sums.h).
void AddProducts(const tensorflow::Tensor* before, absl::Span<const PackedProduct> products,
                 float divisor, tensorflow::Tensor* output,
                 const tensorflow::DeviceBase::CpuWorkerThreads* workers);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_PRODUCT_SUMS_H_
