// A ring of tensors.
#ifndef popops_CircBuf_hpp
#define popops_CircBuf_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <cstddef>
#include <vector>

namespace popops {

/// Keeps the last `size` tensors that were added.
class CircBuf {
 public:
  CircBuf(poplar::Graph &graph, poplar::Type dataType, unsigned size,
          const std::vector<std::size_t> &shape, const poplar::DebugContext &debugContext = {});

  /// The tensor that was added i steps ago: 0 is the last one. `i` is below the size.
  poplar::Tensor prev(unsigned i, poplar::program::Sequence &seq,
                      const poplar::DebugContext &debugContext = {});
  void add(poplar::Tensor t, poplar::program::Sequence &seq,
           const poplar::DebugContext &debugContext = {});

  /// Where the last tensor is.
  poplar::Tensor getIndex() const { return index_; }
  unsigned size() const { return size_; }
  poplar::Graph::TileToTensorMapping getTileMapping();

 private:
  poplar::Graph &graph_;
  unsigned size_;
  std::vector<std::size_t> shape_;
  poplar::Tensor index_, ring_;
};

}  // namespace popops

#endif  // popops_CircBuf_hpp
