// Words that say which rows and columns the blocks of a sparse tensor are of.
#ifndef TENSORFLOW_IPU_POPSPARSE_META_INFO_H_
#define TENSORFLOW_IPU_POPSPARSE_META_INFO_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace popsparse {

// Two words of the number of blocks, then two of the row and two of the column of each, low ones
// first.
constexpr size_t kWordBits = 16, kWordMask = 0xffff;
constexpr size_t kHeaderWords = 2, kWordsOfBlock = 4;

inline size_t WordsOf(size_t blocks) { return kHeaderWords + kWordsOfBlock * blocks; }

struct BlockIndex {
  size_t row, column;
};

// The blocks of a tensor with room for `capacity`.
template <typename Word>
std::vector<BlockIndex> BlocksOf(const Word* words, size_t capacity) {
  const auto number = [words](size_t at) {
    return static_cast<size_t>(words[at]) | static_cast<size_t>(words[at + 1]) << kWordBits;
  };
  std::vector<BlockIndex> blocks(std::min(capacity, number(0)));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t at = kHeaderWords + kWordsOfBlock * i;
    blocks[i] = {number(at), number(at + 2)};
  }
  return blocks;
}

}  // namespace popsparse

#endif  // TENSORFLOW_IPU_POPSPARSE_META_INFO_H_
