// Sparse matrices of the device.
#ifndef popsparse_SparseTensor_hpp
#define popsparse_SparseTensor_hpp

#include <poplar/Tensor.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace popsparse {

namespace core {
/// Sizes of a matrix and of its blocks.
struct MatrixSizes {
  std::size_t rows, columns;
  std::array<std::size_t, 2> block;
};
}  // namespace core

namespace dynamic {

/// Values, and which rows and columns they are of: both can be written from the host.
class SparseTensor {
 public:
  SparseTensor() = default;
  SparseTensor(const poplar::Tensor &metaInfo, const poplar::Tensor &nzValues,
               const core::MatrixSizes &sizes)
      : metaInfo_(metaInfo), nzValues_(nzValues), sizes_(sizes) {}

  const poplar::Tensor &getMetaInfoTensor() const { return metaInfo_; }
  const poplar::Tensor &getNzValuesTensor() const { return nzValues_; }
  const core::MatrixSizes &getSizes() const { return sizes_; }

 private:
  poplar::Tensor metaInfo_, nzValues_;
  core::MatrixSizes sizes_;
};

}  // namespace dynamic

namespace static_ {

/// Values of a pattern that does not change.
class SparseTensor {
 public:
  SparseTensor() = default;
  SparseTensor(const poplar::Tensor &metaInfo, const poplar::Tensor &nzValues,
               const core::MatrixSizes &sizes)
      : metaInfo_(metaInfo), nzValues_(nzValues), sizes_(sizes) {}

  const poplar::Tensor &getNzValuesTensor() const { return nzValues_; }
  /// The pattern, a constant.
  const poplar::Tensor &getMetaInfoTensor() const { return metaInfo_; }
  const core::MatrixSizes &getSizes() const { return sizes_; }

 private:
  poplar::Tensor metaInfo_, nzValues_;
  core::MatrixSizes sizes_;
};

}  // namespace static_
}  // namespace popsparse

#endif  // popsparse_SparseTensor_hpp
