#include "poplin/ConvParams.hpp"

#include <string>
#include <utility>

#include "poplin/ConvUtil.hpp"
#include "poputil/exceptions.hpp"

namespace poplin {
namespace {

using InputTransform = ConvParams::InputTransform;
using OutputTransform = ConvParams::OutputTransform;

[[noreturn]] void Fail(const std::string& message) {
  throw poputil::poplibs_error("poplin::ConvParams: " + message);
}

template <typename T>
void CheckDims(const char* name, const std::vector<T>& values, size_t dims) {
  if (values.size() == dims) return;
  Fail(std::string(name) + " has " + std::to_string(values.size()) + " values; expected " +
       std::to_string(dims) + ", one for each dimension of the field.");
}

void Check(const char* name, const InputTransform& transform, const std::vector<size_t>& shape) {
  const size_t dims = shape.size();
  const std::string prefix = name;
  CheckDims((prefix + ".truncationLower").c_str(), transform.truncationLower, dims);
  CheckDims((prefix + ".truncationUpper").c_str(), transform.truncationUpper, dims);
  CheckDims((prefix + ".dilation").c_str(), transform.dilation, dims);
  CheckDims((prefix + ".paddingLower").c_str(), transform.paddingLower, dims);
  CheckDims((prefix + ".paddingUpper").c_str(), transform.paddingUpper, dims);
  CheckDims((prefix + ".flip").c_str(), transform.flip, dims);
  for (size_t d = 0; d < dims; ++d) {
    if (transform.dilation[d] == 0) Fail(prefix + ".dilation is 0; expected 1 or more.");
    if (transform.truncationLower[d] + transform.truncationUpper[d] > shape[d]) {
      Fail(prefix + " truncates more than the " + std::to_string(shape[d]) +
           " elements of dimension " + std::to_string(d) + ".");
    }
  }
}

void Check(const OutputTransform& transform, size_t dims) {
  CheckDims("outputTransform.truncationLower", transform.truncationLower, dims);
  CheckDims("outputTransform.truncationUpper", transform.truncationUpper, dims);
  CheckDims("outputTransform.stride", transform.stride, dims);
  CheckDims("outputTransform.paddingLower", transform.paddingLower, dims);
  CheckDims("outputTransform.paddingUpper", transform.paddingUpper, dims);
  for (const unsigned stride : transform.stride) {
    if (stride == 0) Fail("outputTransform.stride is 0; expected 1 or more.");
  }
}

size_t TransformedSize(const InputTransform& transform, size_t size, size_t dim) {
  const size_t cut = size - transform.truncationLower[dim] - transform.truncationUpper[dim];
  return transform.paddingLower[dim] +
         getDilatedSize(static_cast<unsigned>(cut), transform.dilation[dim]) +
         transform.paddingUpper[dim];
}

void Simplify(InputTransform* transform, const std::vector<size_t>& shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    const size_t cut = shape[d] - transform->truncationLower[d] - transform->truncationUpper[d];
    if (cut <= 1) transform->dilation[d] = 1;
    if (TransformedSize(*transform, shape[d], d) <= 1) transform->flip[d] = false;
  }
}

auto Fields(const InputTransform& t) {
  return std::tie(t.truncationLower, t.truncationUpper, t.dilation, t.paddingLower, t.paddingUpper,
                  t.flip);
}

auto Fields(const OutputTransform& t) {
  return std::tie(t.truncationLower, t.truncationUpper, t.stride, t.paddingLower, t.paddingUpper);
}

auto Fields(const ConvParams& p) {
  return std::tie(p.inputType, p.outputType, p.batchSize, p.inputFieldShape, p.kernelShape,
                  p.inputChannelsPerConvGroup, p.outputChannelsPerConvGroup, p.numConvGroups,
                  p.inputTransform, p.kernelTransform, p.outputTransform);
}

template <typename T>
std::string Text(const std::vector<T>& values) {
  std::string text;
  for (const auto value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "{" + text + "}";
}

void Print(std::ostream& os, const char* name, const InputTransform& t) {
  os << "\n  " << name << ": truncation " << Text(t.truncationLower) << " "
     << Text(t.truncationUpper) << ", dilation " << Text(t.dilation) << ", padding "
     << Text(t.paddingLower) << " " << Text(t.paddingUpper) << ", flip " << Text(t.flip);
}

}  // namespace

InputTransform::InputTransform(std::vector<unsigned> truncationLower_,
                               std::vector<unsigned> truncationUpper_,
                               std::vector<unsigned> dilation_, std::vector<unsigned> paddingLower_,
                               std::vector<unsigned> paddingUpper_, std::vector<bool> flip_)
    : truncationLower(std::move(truncationLower_)),
      truncationUpper(std::move(truncationUpper_)),
      dilation(std::move(dilation_)),
      paddingLower(std::move(paddingLower_)),
      paddingUpper(std::move(paddingUpper_)),
      flip(std::move(flip_)) {}

OutputTransform::OutputTransform(std::vector<unsigned> truncationLower_,
                                 std::vector<unsigned> truncationUpper_,
                                 std::vector<unsigned> stride_, std::vector<unsigned> paddingLower_,
                                 std::vector<unsigned> paddingUpper_)
    : truncationLower(std::move(truncationLower_)),
      truncationUpper(std::move(truncationUpper_)),
      stride(std::move(stride_)),
      paddingLower(std::move(paddingLower_)),
      paddingUpper(std::move(paddingUpper_)) {}

ConvParams::ConvParams(poplar::Type dataType, size_t batchSize_, std::vector<size_t> fieldShape,
                       std::vector<size_t> kernelShape_, size_t inputChannels,
                       size_t outputChannels, size_t groups)
    : ConvParams(dataType, dataType, batchSize_, std::move(fieldShape), std::move(kernelShape_),
                 inputChannels, outputChannels, groups) {}

ConvParams::ConvParams(poplar::Type inputType_, poplar::Type outputType_, size_t batchSize_,
                       std::vector<size_t> fieldShape, std::vector<size_t> kernelShape_,
                       size_t inputChannels, size_t outputChannels, size_t groups)
    : ConvParams(inputType_, outputType_, batchSize_, fieldShape, kernelShape_, inputChannels,
                 outputChannels, groups, InputTransform(fieldShape.size()),
                 InputTransform(kernelShape_.size()), OutputTransform(fieldShape.size())) {}

ConvParams::ConvParams(poplar::Type inputType_, poplar::Type outputType_, size_t batchSize_,
                       std::vector<size_t> fieldShape, std::vector<size_t> kernelShape_,
                       size_t inputChannels, size_t outputChannels, size_t groups,
                       InputTransform inputTransform_, InputTransform kernelTransform_,
                       OutputTransform outputTransform_)
    : inputType(inputType_),
      outputType(outputType_),
      batchSize(batchSize_),
      inputFieldShape(std::move(fieldShape)),
      kernelShape(std::move(kernelShape_)),
      inputChannelsPerConvGroup(inputChannels),
      outputChannelsPerConvGroup(outputChannels),
      numConvGroups(groups),
      inputTransform(std::move(inputTransform_)),
      kernelTransform(std::move(kernelTransform_)),
      outputTransform(std::move(outputTransform_)) {}

size_t ConvParams::getTransformedInputSize(size_t dim) const {
  return TransformedSize(inputTransform, inputFieldShape[dim], dim);
}

size_t ConvParams::getTransformedKernelSize(size_t dim) const {
  return TransformedSize(kernelTransform, kernelShape[dim], dim);
}

size_t ConvParams::getUntransformedOutputSize(size_t dim) const {
  return getTransformedInputSize(dim) + 1 - getTransformedKernelSize(dim);
}

size_t ConvParams::getOutputSize(size_t dim) const {
  const OutputTransform& t = outputTransform;
  const size_t cut =
      getUntransformedOutputSize(dim) - t.truncationLower[dim] - t.truncationUpper[dim];
  return t.paddingLower[dim] + (cut + t.stride[dim] - 1) / t.stride[dim] + t.paddingUpper[dim];
}

std::vector<size_t> ConvParams::getOutputFieldShape() const {
  std::vector<size_t> shape;
  for (size_t d = 0; d < getNumFieldDims(); ++d) shape.push_back(getOutputSize(d));
  return shape;
}

void ConvParams::validate() const {
  const size_t dims = getNumFieldDims();
  CheckDims("kernelShape", kernelShape, dims);
  Check("inputTransform", inputTransform, inputFieldShape);
  Check("kernelTransform", kernelTransform, kernelShape);
  Check(outputTransform, dims);
  for (size_t d = 0; d < dims; ++d) {
    const size_t input = getTransformedInputSize(d), kernel = getTransformedKernelSize(d);
    if (kernel > input) {
      Fail("the kernel has " + std::to_string(kernel) + " elements in dimension " +
           std::to_string(d) + ", the input " + std::to_string(input) +
           ", both transformed; expected a kernel that is no larger. Pad the input.");
    }
    if (outputTransform.truncationLower[d] + outputTransform.truncationUpper[d] >
        getUntransformedOutputSize(d)) {
      Fail("outputTransform truncates more than the " +
           std::to_string(getUntransformedOutputSize(d)) + " elements of dimension " +
           std::to_string(d) + ".");
    }
  }
}

ConvParams ConvParams::canonicalize() const {
  validate();
  ConvParams result = *this;
  Simplify(&result.inputTransform, inputFieldShape);
  Simplify(&result.kernelTransform, kernelShape);
  for (size_t d = 0; d < getNumFieldDims(); ++d) {
    if (getUntransformedOutputSize(d) <= 1) result.outputTransform.stride[d] = 1;
  }
  return result;
}

bool operator<(const InputTransform& a, const InputTransform& b) { return Fields(a) < Fields(b); }
bool operator==(const InputTransform& a, const InputTransform& b) { return Fields(a) == Fields(b); }
bool operator!=(const InputTransform& a, const InputTransform& b) { return !(a == b); }
bool operator<(const OutputTransform& a, const OutputTransform& b) { return Fields(a) < Fields(b); }
bool operator==(const OutputTransform& a, const OutputTransform& b) {
  return Fields(a) == Fields(b);
}
bool operator!=(const OutputTransform& a, const OutputTransform& b) { return !(a == b); }
bool operator<(const ConvParams& a, const ConvParams& b) { return Fields(a) < Fields(b); }
bool operator==(const ConvParams& a, const ConvParams& b) { return Fields(a) == Fields(b); }
bool operator!=(const ConvParams& a, const ConvParams& b) { return !(a == b); }

std::ostream& operator<<(std::ostream& os, const ConvParams& p) {
  os << "convolution: " << p.inputType << " to " << p.outputType << ", batch " << p.batchSize
     << ", field " << Text(p.inputFieldShape) << ", kernel " << Text(p.kernelShape)
     << ", channels of a group " << p.inputChannelsPerConvGroup << " to "
     << p.outputChannelsPerConvGroup << ", groups " << p.numConvGroups;
  Print(os, "input", p.inputTransform);
  Print(os, "kernel", p.kernelTransform);
  const OutputTransform& t = p.outputTransform;
  return os << "\n  output: truncation " << Text(t.truncationLower) << " "
            << Text(t.truncationUpper) << ", stride " << Text(t.stride) << ", padding "
            << Text(t.paddingLower) << " " << Text(t.paddingUpper) << "\n";
}

}  // namespace poplin
