// Pooling and its gradients.
#ifndef popnn_Pooling_hpp
#define popnn_Pooling_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popnn/PoolingDef.hpp>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

namespace popnn {
namespace pooling {

/// Windows over a field of any number of dimensions.
struct PoolParams {
  PoolingType poolingType;
  std::vector<std::size_t> inputFieldShape, kernelShape;
  std::vector<unsigned> stride;
  /// Padding, or truncation if it is negative, by dimension.
  std::vector<int> inputTruncationOrPaddingLower, inputTruncationOrPaddingUpper;
  std::size_t numChannels, batchSize;
  poplar::Type dType;

  PoolParams(PoolingType poolingType, std::vector<std::size_t> inputFieldShape,
             std::vector<std::size_t> kernelShape, std::vector<unsigned> stride,
             std::vector<int> inputTruncationOrPaddingLower,
             std::vector<int> inputTruncationOrPaddingUpper, std::size_t numChannels,
             std::size_t batchSize, poplar::Type dType);

  std::size_t getNumFieldDims() const { return inputFieldShape.size(); }
  std::vector<std::size_t> getOutputFieldShape() const;
};

std::ostream &operator<<(std::ostream &os, const PoolParams &params);

/// "max", "avg" or "sum".
const char *asString(const PoolingType &method);
std::vector<std::size_t> getOutputFieldShape(const PoolParams &params);

/// Operations of the passes.
std::uint64_t getFwdFlops(const PoolParams &params);
std::uint64_t getBwdFlops(const PoolParams &params);
/// Cycles if all tiles work on whole vectors.
double getFwdPerfectCycleCount(const poplar::Graph &graph, const PoolParams &params);
double getBwdPerfectCycleCount(const poplar::Graph &graph, const PoolParams &params);

/// Pools `in` {batch, channels, field...}. AVG divides by the elements that are not padding.
poplar::Tensor pool(poplar::Graph &graph, const PoolParams &params, const poplar::Tensor &in,
                    poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
                    const poplar::OptionFlags &options = {});

/// The gradient of the input. For MAX, every element that equals the result has the gradient,
/// divided by the number of such elements if `useScaledGradient`.
poplar::Tensor poolInputGradient(poplar::Graph &graph, const PoolParams &params,
                                 const poplar::Tensor &in, const poplar::Tensor &pooled,
                                 const poplar::Tensor &pooledGradient, bool useScaledGradient,
                                 poplar::program::Sequence &prog,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {});
/// The same for AVG and SUM, which do not need the values.
poplar::Tensor poolInputGradient(poplar::Graph &graph, const PoolParams &params,
                                 unsigned fwdChansPerGroup, const poplar::Tensor &pooledGradient,
                                 poplar::program::Sequence &prog,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {});

}  // namespace pooling
}  // namespace popnn

#endif  // popnn_Pooling_hpp
