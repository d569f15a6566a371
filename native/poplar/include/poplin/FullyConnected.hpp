// Products of fully connected layers.
#ifndef poplin_FullyConnected_hpp
#define poplin_FullyConnected_hpp

#include <poplar/OptionFlags.hpp>
#include <poplar/Type.hpp>
#include <poplin/MatMul.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace poplin {
namespace fc {

struct FullyConnectedParams {
  std::size_t numGroups;
  std::size_t batchSize;
  std::size_t inputSize;
  std::size_t outputSize;
};

/// The products of the forward pass, and of the backward pass unless `inferenceOnly`.
std::vector<std::pair<MatMulParams, poplar::OptionFlags>> getMatMulPrePlanParameters(
    FullyConnectedParams parameters, poplar::OptionFlags matmulOptions, poplar::Type type,
    bool inferenceOnly);

}  // namespace fc
}  // namespace poplin

#endif  // poplin_FullyConnected_hpp
