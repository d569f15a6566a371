// Blocks of block-sparse matrices, as functions and kernels share them.
#ifndef TENSORFLOW_IPU_POPSPARSE_BLOCK_MASK_H_
#define TENSORFLOW_IPU_POPSPARSE_BLOCK_MASK_H_

#include <array>
#include <string>
#include <vector>

#include "popsparse/experimental/BlockSparse.hpp"
#include "poputil/attributes.h"
#include "poputil/call_site.h"

namespace popsparse::experimental {

// A block that is there: the element at its corner.
struct BlockPlace {
  size_t group, row, column;
};

// Matrices of one shape, of which each has its own blocks.
struct BlockMask {
  size_t rows, columns, block_rows, block_columns, groups;
  std::vector<BlockPlace> blocks;

  size_t area() const { return block_rows * block_columns; }
  std::vector<size_t> Shape() const { return {blocks.size(), area()}; }
};

// Throws if sizes are no multiples of those of blocks, or the mask has another length.
BlockMask MakeBlockMask(const poputil::CallSite& site, const std::array<int, 2>& sizes,
                        const std::array<int, 2>& block, const std::vector<unsigned char>& present,
                        size_t groups);

poputil::Attributes BlockAttributes(const BlockMask& mask);
BlockMask ReadBlockMask(const poputil::Attributes& attributes);

// Whether an element is zero by the mask of sub-blocks.
inline bool IsMasked(SubBlockMask mask, size_t row, size_t column) {
  return (mask == SubBlockMask::ZeroUpperTriangle && column > row) ||
         (mask == SubBlockMask::ZeroLowerTriangle && column < row);
}

}  // namespace popsparse::experimental

#endif  // TENSORFLOW_IPU_POPSPARSE_BLOCK_MASK_H_
