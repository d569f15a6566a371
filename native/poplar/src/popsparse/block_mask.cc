#include "popsparse/block_mask.h"

namespace popsparse::experimental {

BlockMask MakeBlockMask(const poputil::CallSite& site, const std::array<int, 2>& sizes,
                        const std::array<int, 2>& block, const std::vector<unsigned char>& present,
                        size_t groups) {
  for (size_t d = 0; d < 2; ++d) {
    if (block[d] > 0 && sizes[d] > 0 && sizes[d] % block[d] == 0) continue;
    site.Fail("a matrix of " + std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) +
              " has blocks of " + std::to_string(block[0]) + " x " + std::to_string(block[1]) +
              "; expected sizes that are multiples of those of blocks.");
  }
  BlockMask mask{static_cast<size_t>(sizes[0]),
                 static_cast<size_t>(sizes[1]),
                 static_cast<size_t>(block[0]),
                 static_cast<size_t>(block[1]),
                 groups,
                 {}};
  const size_t across = mask.columns / mask.block_columns;
  const size_t of_group = mask.rows / mask.block_rows * across;
  if (present.size() != groups * of_group) {
    site.Fail("the sparsity has " + std::to_string(present.size()) + " elements; expected " +
              std::to_string(groups * of_group) + ", one for each block.");
  }
  for (size_t i = 0; i < present.size(); ++i) {
    if (present[i] == 0) continue;
    const size_t place = i % of_group;
    mask.blocks.push_back(
        {i / of_group, place / across * mask.block_rows, place % across * mask.block_columns});
  }
  return mask;
}

poputil::Attributes BlockAttributes(const BlockMask& mask) {
  std::vector<size_t> places;
  for (const BlockPlace& block : mask.blocks) {
    places.insert(places.end(), {block.group, block.row, block.column});
  }
  return poputil::Attributes()
      .Set("sizes", std::vector<size_t>{mask.rows, mask.columns, mask.block_rows,
                                        mask.block_columns, mask.groups})
      .Set("blocks", places);
}

BlockMask ReadBlockMask(const poputil::Attributes& attributes) {
  const std::vector<size_t> sizes = attributes.Sizes("sizes");
  const std::vector<size_t> places = attributes.Sizes("blocks");
  BlockMask mask{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], {}};
  for (size_t i = 0; i < places.size(); i += 3) {
    mask.blocks.push_back({places[i], places[i + 1], places[i + 2]});
  }
  return mask;
}

}  // namespace popsparse::experimental
