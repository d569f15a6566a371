// Shapes of products with a sparse matrix.
#ifndef popsparse_MatMulParams_hpp
#define popsparse_MatMulParams_hpp

#include <popsparse/SparsityParams.hpp>

#include <cstddef>
#include <ostream>

namespace popsparse {
namespace dynamic {

/// The product of a sparse {g, m, k} and a dense {g, k, n}. The pattern changes at run time, within
/// a number of values.
class MatMulParams {
 public:
  static MatMulParams createWithNzRatio(const SparsityParams &sparsityParams, double nzRatio,
                                        std::size_t groups, std::size_t m, std::size_t k,
                                        std::size_t n);
  static MatMulParams createWithNumNonZeroValues(const SparsityParams &sparsityParams,
                                                 std::size_t numNonZeroElems, std::size_t groups,
                                                 std::size_t m, std::size_t k, std::size_t n);

  std::size_t getNumGroups() const { return groups_; }
  std::size_t getM() const { return m_; }
  std::size_t getK() const { return k_; }
  std::size_t getN() const { return n_; }
  const SparsityParams &getSparsityParams() const { return sparsity_; }
  double getNzRatio() const;
  std::size_t getNumNonZeroValues() const { return nonZeros_; }

 private:
  MatMulParams() = default;
  SparsityParams sparsity_;
  std::size_t nonZeros_ = 0, groups_ = 1, m_ = 0, k_ = 0, n_ = 0;
};

std::ostream &operator<<(std::ostream &os, const MatMulParams &params);

}  // namespace dynamic

namespace static_ {

/// A product with a sparse matrix whose pattern does not change.
class MatMulParams {
 public:
  /// The sparse {g, m, k} times the dense {g, k, n}.
  static MatMulParams createForSparseDense(std::size_t groups, std::size_t m, std::size_t k,
                                           std::size_t n);
  /// The dense {g, n, k} times the sparse {g, k, m}.
  static MatMulParams createForDenseSparse(std::size_t groups, std::size_t n, std::size_t k,
                                           std::size_t m);

  std::size_t getNumGroups() const { return groups_; }
  std::size_t getM() const { return m_; }
  std::size_t getK() const { return k_; }
  std::size_t getN() const { return n_; }
  /// Whether the left side is the sparse one.
  bool isSparseDense() const { return sparseDense_; }

 private:
  MatMulParams() = default;
  std::size_t groups_ = 1, m_ = 0, k_ = 0, n_ = 0;
  bool sparseDense_ = true;
};

std::ostream &operator<<(std::ostream &os, const MatMulParams &params);

}  // namespace static_
}  // namespace popsparse

#endif  // popsparse_MatMulParams_hpp
