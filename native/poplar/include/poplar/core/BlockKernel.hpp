// Kernels of elementwise ops, which compute their output block by block.
#ifndef poplar_core_BlockKernel_hpp
#define poplar_core_BlockKernel_hpp

#include <poplar/core/LibraryOp.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace poplar {
namespace core {

/// Computes blocks of a kernel's output on one thread.
class BlockRun {
 public:
  virtual ~BlockRun() {}
  /// Returns how many elements it can compute at once.
  virtual std::size_t limit() const = 0;
  /// Computes elements [begin, begin + count), `limit` at most.
  virtual void run(std::size_t begin, std::size_t count) = 0;
};

/// The most elements that one thread computes alone.
///
/// A second thread saves time from about 1,000,000 additions on. Reading and writing an element
/// counts as three.
///
/// \param hostCost what an element takes, in additions of floats.
constexpr std::size_t grainOf(std::size_t hostCost) {
  return (std::size_t(1) << 20) / (3 + hostCost);
}

/// A kernel whose one output is computed block by block. Neighbors with outputs of one size run
/// together, so that blocks stay in the cache.
class BlockKernel : public Kernel {
 public:
  static constexpr std::size_t kBlock = 1024;

  /// Elements of the output.
  virtual std::size_t count() const = 0;
  /// What an element of the output takes on the host, in additions of floats.
  virtual std::size_t hostCost() const = 0;
  /// Whether element i of an input is read for element i of the output and for no other.
  virtual bool isElementwise(std::size_t input) const = 0;
  /// Begins to compute on this thread. Inputs and outputs live as long as the result.
  virtual std::unique_ptr<BlockRun> start(const std::vector<const void *> &inputs,
                                          const std::vector<void *> &outputs) = 0;
};

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_BlockKernel_hpp
