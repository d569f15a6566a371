// Shapes of a layer with sparse weights.
#ifndef popsparse_FullyConnectedParams_hpp
#define popsparse_FullyConnectedParams_hpp

#include <popsparse/SparsityParams.hpp>

#include <cstddef>
#include <ostream>

namespace popsparse {
namespace dynamic {

/// Weights {output channels, input channels} with a number of values that are not zero.
class FullyConnectedParams {
 public:
  static FullyConnectedParams createWithNzRatio(const SparsityParams &sparsityParams,
                                                double nzRatio, std::size_t batchSize,
                                                std::size_t numGroups, std::size_t inputChannels,
                                                std::size_t outputChannels);
  static FullyConnectedParams createWithNumNonZeroValues(
      const SparsityParams &sparsityParams, std::size_t numNonZeroElems, std::size_t batchSize,
      std::size_t numGroups, std::size_t inputChannels, std::size_t outputChannels);

  std::size_t getBatchSize() const { return batch_; }
  std::size_t getNumGroups() const { return groups_; }
  std::size_t getInputChannels() const { return in_; }
  std::size_t getOutputChannels() const { return out_; }
  std::size_t getInputChannelsPerGroup() const { return in_ / groups_; }
  std::size_t getOutputChannelsPerGroup() const { return out_ / groups_; }
  const SparsityParams &getSparsityParams() const { return sparsity_; }
  double getNzRatio() const;
  std::size_t getNumNonZeroValues() const { return nonZeros_; }

 private:
  FullyConnectedParams() = default;
  SparsityParams sparsity_;
  std::size_t nonZeros_ = 0, batch_ = 0, groups_ = 1, in_ = 0, out_ = 0;
};

std::ostream &operator<<(std::ostream &os, const FullyConnectedParams &params);

}  // namespace dynamic
}  // namespace popsparse

#endif  // popsparse_FullyConnectedParams_hpp
