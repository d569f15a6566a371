// Which elements of input, kernel and result of a convolution meet.
#ifndef poplin_ConvUtil_hpp
#define poplin_ConvUtil_hpp

#include <poplin/ConvParams.hpp>

#include <utility>

namespace poplin {

/// The size after zeros were put between elements.
unsigned getDilatedSize(unsigned size, unsigned dilation);

/// The position in the input that a position of the kernel meets for one of the output, or ~0U.
unsigned getInputIndex(unsigned dim, unsigned outputIndex, unsigned kernelIndex,
                       const ConvParams &params);
/// The position in the kernel that joins an output and an input, or ~0U.
unsigned getKernelIndex(unsigned dim, unsigned outputIndex, unsigned inputIndex,
                        const ConvParams &params);

// Ranges are half-open; one without elements is {0, 0}.

/// The inputs that a range of outputs reads.
std::pair<unsigned, unsigned> getInputRange(unsigned dim, std::pair<unsigned, unsigned> outputRange,
                                            unsigned kernelIndex, const ConvParams &params);
std::pair<unsigned, unsigned> getInputRange(unsigned dim, std::pair<unsigned, unsigned> outputRange,
                                            std::pair<unsigned, unsigned> kernelIndexRange,
                                            const ConvParams &params);
std::pair<unsigned, unsigned> getInputRange(unsigned dim, unsigned outputIndex,
                                            std::pair<unsigned, unsigned> kernelIndexRange,
                                            const ConvParams &params);
std::pair<unsigned, unsigned> getInputRange(unsigned dim, std::pair<unsigned, unsigned> outputRange,
                                            const ConvParams &params);
std::pair<unsigned, unsigned> getInputRange(unsigned dim, unsigned outputIndex,
                                            const ConvParams &params);

/// The positions of the kernel that join ranges.
std::pair<unsigned, unsigned> getKernelRange(unsigned dim,
                                             std::pair<unsigned, unsigned> outputRange,
                                             unsigned inputIndex, const ConvParams &params);
std::pair<unsigned, unsigned> getKernelRange(unsigned dim,
                                             std::pair<unsigned, unsigned> outputRange,
                                             std::pair<unsigned, unsigned> inputRange,
                                             const ConvParams &params);

/// The outputs, of a range, that an input or a position of the kernel contributes to.
std::pair<unsigned, unsigned> getOutputRangeForInputIndex(unsigned dim,
                                                          std::pair<unsigned, unsigned> outputRange,
                                                          unsigned inputIndex,
                                                          const ConvParams &params);
std::pair<unsigned, unsigned> getOutputRangeForInputRange(unsigned dim,
                                                          std::pair<unsigned, unsigned> outputRange,
                                                          std::pair<unsigned, unsigned> inputRange,
                                                          const ConvParams &params);
std::pair<unsigned, unsigned> getOutputRangeForKernelIndex(
    unsigned dim, std::pair<unsigned, unsigned> outputRange, unsigned kernelIndex,
    const ConvParams &params);
std::pair<unsigned, unsigned> getOutputRangeForKernelRange(
    unsigned dim, std::pair<unsigned, unsigned> outputRange,
    std::pair<unsigned, unsigned> kernelIndexRange, const ConvParams &params);

/// The convolution of the result's gradient that is the input's gradient: with
/// `transposeAndFlipWeights`.
ConvParams getGradientParams(const ConvParams &params);
/// The convolution of input and result's gradient that is the gradient of the weights. Its batch
/// are the input's channels, its channels the batch.
ConvParams getWeightUpdateParams(const ConvParams &fwdParams);

}  // namespace poplin

#endif  // poplin_ConvUtil_hpp
