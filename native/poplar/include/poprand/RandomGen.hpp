// Random numbers.
//
// A seed is a tensor UNSIGNED_INT {2}. The same seed, modifier and shape give the same values, on
// any number of cores. Without a seed, a graph's own generator goes on: `setSeed` starts it.
#ifndef poprand_RandomGen_hpp
#define poprand_RandomGen_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <cmath>
#include <cstdint>

namespace poprand {

/// Uniform in [minVal, maxVal), for INT in [minVal, maxVal], in the layout of `reference`.
poplar::Tensor uniform(poplar::Graph &graph, const poplar::Tensor *seed, std::uint32_t seedModifier,
                       const poplar::Tensor &reference, const poplar::Type &outType, double minVal,
                       double maxVal, poplar::program::Sequence &prog,
                       const poplar::DebugContext &debugContext = {});

/// 1 with a probability, else 0.
poplar::Tensor bernoulli(poplar::Graph &graph, const poplar::Tensor *seed,
                         std::uint32_t seedModifier, const poplar::Tensor &reference,
                         const poplar::Type &outType, double prob, poplar::program::Sequence &prog,
                         const poplar::DebugContext &debugContext = {});

/// Normally distributed.
poplar::Tensor normal(poplar::Graph &graph, const poplar::Tensor *seed, std::uint32_t seedModifier,
                      const poplar::Tensor &reference, const poplar::Type &outType, double mean,
                      double stdDev, poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {});

/// The same within `alpha` standard deviations of the mean.
poplar::Tensor truncatedNormal(poplar::Graph &graph, const poplar::Tensor *seed,
                               std::uint32_t seedModifier, const poplar::Tensor &reference,
                               const poplar::Type &outType, double mean, double stdDev,
                               double alpha, poplar::program::Sequence &prog,
                               const poplar::DebugContext &debugContext = {});

/// `base` to a power that is uniform: values in [minVal, maxVal].
poplar::Tensor logUniform(poplar::Graph &graph, const poplar::Tensor *seed,
                          std::uint32_t seedModifier, const poplar::Tensor &reference,
                          const poplar::Type &outType, double minVal, double maxVal,
                          poplar::program::Sequence &prog, double base = 2.71828182845904523536,
                          const poplar::DebugContext &debugContext = {});

/// The input times `scale` where an element is kept, else 0.
poplar::Tensor dropout(poplar::Graph &graph, const poplar::Tensor *seed,
                       const std::uint32_t seedModifier, const poplar::Tensor &input,
                       const poplar::Tensor &reference, double keepProbability, double scale,
                       poplar::program::Sequence &prog,
                       const poplar::DebugContext &debugContext = {});
/// The same with the layout of `reference`, or of `input`.
poplar::Tensor dropout(poplar::Graph &graph, const poplar::Tensor *seed,
                       const std::uint32_t seedModifier, const poplar::Tensor &input,
                       const poplar::Tensor &reference, double keepProbability, double scale,
                       bool outputClonesRef, poplar::program::Sequence &prog,
                       const poplar::DebugContext &debugContext = {});

/// Dropout with a mask of the shape of `reference`, which is broadcast to the input.
poplar::Tensor shapedDropout(poplar::Graph &graph, const poplar::Tensor *seed,
                             const std::uint32_t seedModifier, const poplar::Tensor &input,
                             const poplar::Tensor &reference, double keepProbability, double scale,
                             poplar::program::Sequence &prog,
                             const poplar::DebugContext &debugContext = {});

/// Starts the graph's own generator.
void setSeed(poplar::Graph &graph, const poplar::Tensor &masterSeed, std::uint32_t seedModifier,
             poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {});

}  // namespace poprand

#endif  // poprand_RandomGen_hpp
