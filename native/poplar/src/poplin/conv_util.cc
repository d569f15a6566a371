#include "poplin/ConvUtil.hpp"

#include <algorithm>

namespace poplin {
namespace {

constexpr unsigned kNone = ~0u;

using Range = std::pair<unsigned, unsigned>;

// The position in the transformed field of an operand, or none if it is truncated.
unsigned Transformed(const ConvParams::InputTransform& t, unsigned dim, unsigned index, size_t size,
                     size_t transformed_size) {
  if (index < t.truncationLower[dim] || index + t.truncationUpper[dim] >= size) return kNone;
  const unsigned place = (index - t.truncationLower[dim]) * t.dilation[dim] + t.paddingLower[dim];
  return t.flip[dim] ? static_cast<unsigned>(transformed_size) - 1 - place : place;
}

// The element that is at a position of the transformed field, or none for a zero.
unsigned Untransformed(const ConvParams::InputTransform& t, unsigned dim, unsigned place,
                       size_t size, size_t transformed_size) {
  if (t.flip[dim]) place = static_cast<unsigned>(transformed_size) - 1 - place;
  if (place < t.paddingLower[dim]) return kNone;
  place -= t.paddingLower[dim];
  const unsigned cut =
      static_cast<unsigned>(size) - t.truncationLower[dim] - t.truncationUpper[dim];
  if (place % t.dilation[dim] != 0 || place / t.dilation[dim] >= cut) return kNone;
  return place / t.dilation[dim] + t.truncationLower[dim];
}

// The position in the result before its transform, or none for padding.
unsigned UntransformedOutput(unsigned dim, unsigned index, const ConvParams& params) {
  const ConvParams::OutputTransform& t = params.outputTransform;
  if (index < t.paddingLower[dim]) return kNone;
  if (index + t.paddingUpper[dim] >= params.getOutputSize(dim)) return kNone;
  return (index - t.paddingLower[dim]) * t.stride[dim] + t.truncationLower[dim];
}

// The least range of positions for which `meets`, of those below `size`.
template <typename Meets>
Range RangeWhere(unsigned begin, unsigned end, const Meets& meets) {
  Range range(0, 0);
  for (unsigned i = begin; i < end; ++i) {
    if (!meets(i)) continue;
    if (range.second == 0) range.first = i;
    range.second = i + 1;
  }
  return range;
}

template <typename Meets>
bool Any(Range range, const Meets& meets) {
  for (unsigned i = range.first; i < range.second; ++i) {
    if (meets(i)) return true;
  }
  return false;
}

Range Whole(size_t size) { return Range(0, static_cast<unsigned>(size)); }
Range One(unsigned index) { return Range(index, index + 1); }

}  // namespace

unsigned getDilatedSize(unsigned size, unsigned dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

unsigned getInputIndex(unsigned dim, unsigned outputIndex, unsigned kernelIndex,
                       const ConvParams& params) {
  const unsigned output = UntransformedOutput(dim, outputIndex, params);
  const unsigned kernel =
      Transformed(params.kernelTransform, dim, kernelIndex, params.kernelShape[dim],
                  params.getTransformedKernelSize(dim));
  if (output == kNone || kernel == kNone) return kNone;
  return Untransformed(params.inputTransform, dim, output + kernel, params.inputFieldShape[dim],
                       params.getTransformedInputSize(dim));
}

unsigned getKernelIndex(unsigned dim, unsigned outputIndex, unsigned inputIndex,
                        const ConvParams& params) {
  for (unsigned k = 0; k < params.kernelShape[dim]; ++k) {
    if (getInputIndex(dim, outputIndex, k, params) == inputIndex) return k;
  }
  return kNone;
}

Range getInputRange(unsigned dim, Range outputRange, Range kernelIndexRange,
                    const ConvParams& params) {
  return RangeWhere(0, static_cast<unsigned>(params.inputFieldShape[dim]), [&](unsigned input) {
    return Any(outputRange, [&](unsigned output) {
      const unsigned kernel = getKernelIndex(dim, output, input, params);
      return kernel != kNone && kernel >= kernelIndexRange.first &&
             kernel < kernelIndexRange.second;
    });
  });
}

Range getInputRange(unsigned dim, Range outputRange, unsigned kernelIndex,
                    const ConvParams& params) {
  return getInputRange(dim, outputRange, One(kernelIndex), params);
}

Range getInputRange(unsigned dim, unsigned outputIndex, Range kernelIndexRange,
                    const ConvParams& params) {
  return getInputRange(dim, One(outputIndex), kernelIndexRange, params);
}

Range getInputRange(unsigned dim, Range outputRange, const ConvParams& params) {
  return getInputRange(dim, outputRange, Whole(params.kernelShape[dim]), params);
}

Range getInputRange(unsigned dim, unsigned outputIndex, const ConvParams& params) {
  return getInputRange(dim, One(outputIndex), params);
}

Range getKernelRange(unsigned dim, Range outputRange, Range inputRange, const ConvParams& params) {
  return RangeWhere(0, static_cast<unsigned>(params.kernelShape[dim]), [&](unsigned kernel) {
    return Any(outputRange, [&](unsigned output) {
      const unsigned input = getInputIndex(dim, output, kernel, params);
      return input != kNone && input >= inputRange.first && input < inputRange.second;
    });
  });
}

Range getKernelRange(unsigned dim, Range outputRange, unsigned inputIndex,
                     const ConvParams& params) {
  return getKernelRange(dim, outputRange, One(inputIndex), params);
}

Range getOutputRangeForInputRange(unsigned dim, Range outputRange, Range inputRange,
                                  const ConvParams& params) {
  return RangeWhere(outputRange.first, outputRange.second, [&](unsigned output) {
    return Any(inputRange,
               [&](unsigned input) { return getKernelIndex(dim, output, input, params) != kNone; });
  });
}

Range getOutputRangeForInputIndex(unsigned dim, Range outputRange, unsigned inputIndex,
                                  const ConvParams& params) {
  return getOutputRangeForInputRange(dim, outputRange, One(inputIndex), params);
}

Range getOutputRangeForKernelRange(unsigned dim, Range outputRange, Range kernelIndexRange,
                                   const ConvParams& params) {
  return RangeWhere(outputRange.first, outputRange.second, [&](unsigned output) {
    return Any(kernelIndexRange, [&](unsigned kernel) {
      return getInputIndex(dim, output, kernel, params) != kNone;
    });
  });
}

Range getOutputRangeForKernelIndex(unsigned dim, Range outputRange, unsigned kernelIndex,
                                   const ConvParams& params) {
  return getOutputRangeForKernelRange(dim, outputRange, One(kernelIndex), params);
}

namespace {

// Undoes the transform of a result: it becomes that of an operand, of the size before it.
ConvParams::InputTransform Undone(const ConvParams& params) {
  const size_t dims = params.getNumFieldDims();
  const ConvParams::OutputTransform& t = params.outputTransform;
  ConvParams::InputTransform result(dims);
  for (size_t d = 0; d < dims; ++d) {
    result.truncationLower[d] = t.paddingLower[d];
    result.truncationUpper[d] = t.paddingUpper[d];
    result.dilation[d] = t.stride[d];
    const size_t inner = params.getOutputSize(d) - t.paddingLower[d] - t.paddingUpper[d];
    const size_t dilated = getDilatedSize(static_cast<unsigned>(inner), t.stride[d]);
    result.paddingLower[d] = t.truncationLower[d];
    result.paddingUpper[d] = static_cast<unsigned>(params.getUntransformedOutputSize(d) -
                                                   t.truncationLower[d] - dilated);
  }
  return result;
}

// Undoes the transform of an operand, but for its flip: it becomes that of a result.
ConvParams::OutputTransform Undone(const ConvParams::InputTransform& t) {
  return ConvParams::OutputTransform(t.paddingLower, t.paddingUpper, t.dilation, t.truncationLower,
                                     t.truncationUpper);
}

}  // namespace

ConvParams getGradientParams(const ConvParams& params) {
  ConvParams result(params.inputType, params.outputType, params.batchSize,
                    params.getOutputFieldShape(), params.kernelShape,
                    params.outputChannelsPerConvGroup, params.inputChannelsPerConvGroup,
                    params.numConvGroups);
  result.inputTransform = Undone(params);
  // The weights come flipped, so that lower and upper ends change.
  result.kernelTransform = params.kernelTransform;
  std::swap(result.kernelTransform.truncationLower, result.kernelTransform.truncationUpper);
  std::swap(result.kernelTransform.paddingLower, result.kernelTransform.paddingUpper);
  for (size_t d = 0; d < params.getNumFieldDims(); ++d) {
    const unsigned overlap = static_cast<unsigned>(params.getTransformedKernelSize(d)) - 1;
    result.inputTransform.paddingLower[d] += overlap;
    result.inputTransform.paddingUpper[d] += overlap;
    // The flip of a convolution is that of its flipped operands.
    if (!params.inputTransform.flip[d]) continue;
    result.inputTransform.flip[d] = true;
    result.kernelTransform.flip[d] = !result.kernelTransform.flip[d];
  }
  result.outputTransform = Undone(params.inputTransform);
  return result;
}

ConvParams getWeightUpdateParams(const ConvParams& fwdParams) {
  ConvParams result(fwdParams.inputType, fwdParams.outputType, fwdParams.inputChannelsPerConvGroup,
                    fwdParams.inputFieldShape, fwdParams.getOutputFieldShape(), fwdParams.batchSize,
                    fwdParams.outputChannelsPerConvGroup, fwdParams.numConvGroups);
  result.inputTransform = fwdParams.inputTransform;
  result.kernelTransform = Undone(fwdParams);
  for (size_t d = 0; d < fwdParams.getNumFieldDims(); ++d) {
    if (!fwdParams.kernelTransform.flip[d]) continue;
    result.inputTransform.flip[d] = !result.inputTransform.flip[d];
    result.kernelTransform.flip[d] = true;
  }
  result.outputTransform = Undone(fwdParams.kernelTransform);
  return result;
}

}  // namespace poplin
