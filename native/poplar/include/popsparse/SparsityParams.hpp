// What is sparse in a matrix.
#ifndef popsparse_SparsityParams_hpp
#define popsparse_SparsityParams_hpp

#include <array>
#include <cstddef>
#include <ostream>

namespace popsparse {
namespace dynamic {

enum class SparsityType { Element, Block };
enum class SparsityStructure { Unstructured };

/// Elements or blocks, anywhere in the matrix.
struct SparsityParams {
  SparsityType type;
  SparsityStructure structure;
  std::array<std::size_t, 2> blockDimensions;

  SparsityParams(SparsityType type_ = SparsityType::Element,
                 SparsityStructure structure_ = SparsityStructure::Unstructured,
                 std::array<std::size_t, 2> blockDimensions_ = {{1, 1}})
      : type(type_), structure(structure_), blockDimensions(blockDimensions_) {}

  std::size_t blockSize() const { return blockDimensions[0] * blockDimensions[1]; }

  friend bool operator==(const SparsityParams &a, const SparsityParams &b) {
    return a.type == b.type && a.structure == b.structure && a.blockDimensions == b.blockDimensions;
  }
  friend bool operator!=(const SparsityParams &a, const SparsityParams &b) { return !(a == b); }
  friend bool operator<(const SparsityParams &a, const SparsityParams &b) {
    if (a.type != b.type) return a.type < b.type;
    return a.blockDimensions < b.blockDimensions;
  }
};

std::ostream &operator<<(std::ostream &os, const SparsityType &type);
std::ostream &operator<<(std::ostream &os, const SparsityStructure &structure);
std::ostream &operator<<(std::ostream &os, const SparsityParams &params);

}  // namespace dynamic
}  // namespace popsparse

#endif  // popsparse_SparsityParams_hpp
