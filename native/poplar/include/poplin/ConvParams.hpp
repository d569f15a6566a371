// Shapes of a convolution, and what is done to its operands and result.
#ifndef poplin_ConvParams_hpp
#define poplin_ConvParams_hpp

#include <poplar/Type.hpp>

#include <cstddef>
#include <ostream>
#include <tuple>
#include <vector>

namespace poplin {

/// A convolution of any number of dimensions.
///
/// Both operands are transformed first, then the kernel slides over the input, then the result is
/// transformed. The steps of a transform are done in the order of its fields.
struct ConvParams {
  /// Of the field of an operand, by dimension.
  struct InputTransform {
    std::vector<unsigned> truncationLower, truncationUpper;
    /// Distance of elements: zeros are between them.
    std::vector<unsigned> dilation;
    std::vector<unsigned> paddingLower, paddingUpper;
    std::vector<bool> flip;

    InputTransform() = default;
    explicit InputTransform(std::size_t dims)
        : truncationLower(dims, 0),
          truncationUpper(dims, 0),
          dilation(dims, 1),
          paddingLower(dims, 0),
          paddingUpper(dims, 0),
          flip(dims, false) {}
    InputTransform(std::vector<unsigned> truncationLower_, std::vector<unsigned> truncationUpper_,
                   std::vector<unsigned> dilation_, std::vector<unsigned> paddingLower_,
                   std::vector<unsigned> paddingUpper_, std::vector<bool> flip_);
  };

  /// Of the field of the result, by dimension.
  struct OutputTransform {
    std::vector<unsigned> truncationLower, truncationUpper;
    std::vector<unsigned> stride;
    std::vector<unsigned> paddingLower, paddingUpper;

    OutputTransform() = default;
    explicit OutputTransform(std::size_t dims)
        : truncationLower(dims, 0),
          truncationUpper(dims, 0),
          stride(dims, 1),
          paddingLower(dims, 0),
          paddingUpper(dims, 0) {}
    OutputTransform(std::vector<unsigned> truncationLower_, std::vector<unsigned> truncationUpper_,
                    std::vector<unsigned> stride_, std::vector<unsigned> paddingLower_,
                    std::vector<unsigned> paddingUpper_);
  };

  poplar::Type inputType, outputType;
  std::size_t batchSize = 0;
  std::vector<std::size_t> inputFieldShape, kernelShape;
  std::size_t inputChannelsPerConvGroup = 0, outputChannelsPerConvGroup = 0, numConvGroups = 0;
  InputTransform inputTransform, kernelTransform;
  OutputTransform outputTransform;

  ConvParams() = default;
  /// Numbers of channels are those of one group.
  ConvParams(poplar::Type dataType, std::size_t batchSize_, std::vector<std::size_t> fieldShape,
             std::vector<std::size_t> kernelShape_, std::size_t inputChannels,
             std::size_t outputChannels, std::size_t groups);
  ConvParams(poplar::Type inputType_, poplar::Type outputType_, std::size_t batchSize_,
             std::vector<std::size_t> fieldShape, std::vector<std::size_t> kernelShape_,
             std::size_t inputChannels, std::size_t outputChannels, std::size_t groups);
  ConvParams(poplar::Type inputType_, poplar::Type outputType_, std::size_t batchSize_,
             std::vector<std::size_t> fieldShape, std::vector<std::size_t> kernelShape_,
             std::size_t inputChannels, std::size_t outputChannels, std::size_t groups,
             InputTransform inputTransform_, InputTransform kernelTransform_,
             OutputTransform outputTransform_);

  std::size_t getNumFieldDims() const { return inputFieldShape.size(); }
  std::size_t getNumConvGroups() const { return numConvGroups; }
  std::size_t getBatchSize() const { return batchSize; }
  std::size_t getInputSize(std::size_t dim) const { return inputFieldShape[dim]; }
  std::size_t getNumInputChansPerConvGroup() const { return inputChannelsPerConvGroup; }
  std::size_t getNumOutputChansPerConvGroup() const { return outputChannelsPerConvGroup; }
  std::size_t getNumInputChans() const { return inputChannelsPerConvGroup * numConvGroups; }
  std::size_t getNumOutputChans() const { return outputChannelsPerConvGroup * numConvGroups; }
  const std::vector<std::size_t> &getInputFieldShape() const { return inputFieldShape; }
  const std::vector<std::size_t> &getKernelShape() const { return kernelShape; }

  std::size_t getTransformedInputSize(std::size_t dim) const;
  std::size_t getTransformedKernelSize(std::size_t dim) const;
  /// Before the output's transform.
  std::size_t getUntransformedOutputSize(std::size_t dim) const;
  std::size_t getOutputSize(std::size_t dim) const;
  std::vector<std::size_t> getOutputFieldShape() const;

  /// Throws poplibs_error for sizes that do not fit together.
  void validate() const;
  /// The same convolution without transforms that do nothing.
  ConvParams canonicalize() const;
};

bool operator<(const ConvParams::InputTransform &a, const ConvParams::InputTransform &b);
bool operator==(const ConvParams::InputTransform &a, const ConvParams::InputTransform &b);
bool operator!=(const ConvParams::InputTransform &a, const ConvParams::InputTransform &b);
bool operator<(const ConvParams::OutputTransform &a, const ConvParams::OutputTransform &b);
bool operator==(const ConvParams::OutputTransform &a, const ConvParams::OutputTransform &b);
bool operator!=(const ConvParams::OutputTransform &a, const ConvParams::OutputTransform &b);
bool operator<(const ConvParams &a, const ConvParams &b);
bool operator==(const ConvParams &a, const ConvParams &b);
bool operator!=(const ConvParams &a, const ConvParams &b);
std::ostream &operator<<(std::ostream &os, const ConvParams &params);

}  // namespace poplin

#endif  // poplin_ConvParams_hpp
