#include "kernels/print_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tensorflow/core/framework/types.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::Tensor;

// The defaults that the documents give for printing tensors.
constexpr int64_t kSummariseThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr size_t kMaxLineWidth = 75;
constexpr int kDigits = 8;

// Fixed notation has no room for larger and smaller numbers.
constexpr double kLargestFixed = 1e8;
constexpr double kSmallestFixed = 1e-4;

template <typename T>
std::vector<double> Reals(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  std::vector<double> values(flat.size());
  for (int64_t i = 0; i < flat.size(); ++i) values[i] = static_cast<double>(flat(i));
  return values;
}

std::string Print(const char* format, int precision, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, precision, value);
  return text;
}

// All in one notation, so that columns can be compared.
std::vector<std::string> RealTexts(const std::vector<double>& values) {
  double largest = 0, smallest = kLargestFixed;
  for (const double value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    largest = std::max(largest, std::fabs(value));
    smallest = std::min(smallest, std::fabs(value));
  }
  const bool scientific = largest >= kLargestFixed || smallest < kSmallestFixed;
  int whole_digits = 1;
  for (double rest = largest; rest >= 10; rest /= 10) ++whole_digits;
  const int precision = scientific ? kDigits - 1 : std::max(kDigits - whole_digits, 0);
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) {
    texts.push_back(Print(scientific ? "%.*e" : "%.*f", precision, value));
  }
  return texts;
}

template <typename T>
std::vector<std::string> IntegerTexts(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  std::vector<std::string> texts;
  texts.reserve(flat.size());
  for (int64_t i = 0; i < flat.size(); ++i) texts.push_back(std::to_string(flat(i)));
  return texts;
}

std::vector<std::string> Texts(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case tensorflow::DT_HALF:
      return RealTexts(Reals<Eigen::half>(tensor));
    case tensorflow::DT_BFLOAT16:
      return RealTexts(Reals<tensorflow::bfloat16>(tensor));
    case tensorflow::DT_FLOAT:
      return RealTexts(Reals<float>(tensor));
    case tensorflow::DT_DOUBLE:
      return RealTexts(Reals<double>(tensor));
    case tensorflow::DT_BOOL:
      return IntegerTexts<bool>(tensor);
    case tensorflow::DT_INT8:
      return IntegerTexts<int8_t>(tensor);
    case tensorflow::DT_UINT8:
      return IntegerTexts<uint8_t>(tensor);
    case tensorflow::DT_INT16:
      return IntegerTexts<int16_t>(tensor);
    case tensorflow::DT_UINT16:
      return IntegerTexts<uint16_t>(tensor);
    case tensorflow::DT_INT32:
      return IntegerTexts<int32_t>(tensor);
    case tensorflow::DT_UINT32:
      return IntegerTexts<uint32_t>(tensor);
    case tensorflow::DT_INT64:
      return IntegerTexts<int64_t>(tensor);
    case tensorflow::DT_UINT64:
      return IntegerTexts<uint64_t>(tensor);
    default:
      return {};
  }
}

// Writes the nested brackets of a tensor.
class Writer {
 public:
  Writer(const Tensor& tensor, std::vector<std::string> texts)
      : tensor_(tensor),
        texts_(std::move(texts)),
        summarised_(tensor.NumElements() > kSummariseThreshold) {
    for (const std::string& text : texts_) width_ = std::max(width_, text.size());
  }

  std::string Write() {
    WriteDimension(0, 0);
    return std::move(text_);
  }

 private:
  void WriteDimension(int dimension, int64_t offset) {
    if (dimension == tensor_.dims()) {
      Append(std::string(width_ - texts_[offset].size(), ' ') + texts_[offset]);
      return;
    }
    const int64_t size = tensor_.dim_size(dimension);
    int64_t stride = 1;
    for (int i = dimension + 1; i < tensor_.dims(); ++i) stride *= tensor_.dim_size(i);
    const bool innermost = dimension + 1 == tensor_.dims();
    text_ += '[';
    ++column_;
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) Separate(dimension, innermost);
      if (summarised_ && size > 2 * kEdgeItems && i == kEdgeItems) {
        Append("...");
        i = size - kEdgeItems - 1;
        continue;
      }
      WriteDimension(dimension + 1, offset + i * stride);
    }
    text_ += ']';
    ++column_;
  }

  void Append(const std::string& item) {
    text_ += item;
    column_ += item.size();
  }

  void Separate(int dimension, bool innermost) {
    if (innermost && column_ + 1 + width_ < kMaxLineWidth) {
      text_ += ' ';
      ++column_;
      return;
    }
    text_ += '\n' + std::string(dimension + 1, ' ');
    column_ = dimension + 1;
  }

  const Tensor& tensor_;
  const std::vector<std::string> texts_;
  const bool summarised_;
  std::string text_;
  size_t width_ = 0;
  size_t column_ = 0;
};

}  // namespace

std::string FormatTensor(const Tensor& tensor) {
  std::vector<std::string> texts = Texts(tensor);
  if (texts.empty() && tensor.NumElements() > 0) {
    return tensor.SummarizeValue(tensor.NumElements(), /*print_v2=*/true);
  }
  return Writer(tensor, std::move(texts)).Write();
}

}  // namespace tensorflow_ipu
