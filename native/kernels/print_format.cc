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

// All in one notation, so that columns can be compared, unless that is "none".
std::vector<std::string> RealTexts(const std::vector<double>& values, const PrintLayout& layout) {
  const int digits = static_cast<int>(std::clamp<int64_t>(layout.digits, 1, 30));
  double largest = 0, smallest = kLargestFixed;
  for (const double value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    largest = std::max(largest, std::fabs(value));
    smallest = std::min(smallest, std::fabs(value));
  }
  const bool scientific =
      layout.float_format == "scientific" ||
      (layout.float_format == "auto" && (largest >= kLargestFixed || smallest < kSmallestFixed));
  int whole_digits = 1;
  for (double rest = largest; rest >= 10; rest /= 10) ++whole_digits;
  const int precision = scientific ? digits - 1 : std::max(digits - whole_digits, 0);
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) {
    texts.push_back(layout.float_format == "none"
                        ? Print("%.*g", digits, value)
                        : Print(scientific ? "%.*e" : "%.*f", precision, value));
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

std::vector<std::string> Texts(const Tensor& tensor, const PrintLayout& layout) {
  switch (tensor.dtype()) {
    case tensorflow::DT_HALF:
      return RealTexts(Reals<Eigen::half>(tensor), layout);
    case tensorflow::DT_BFLOAT16:
      return RealTexts(Reals<tensorflow::bfloat16>(tensor), layout);
    case tensorflow::DT_FLOAT:
      return RealTexts(Reals<float>(tensor), layout);
    case tensorflow::DT_DOUBLE:
      return RealTexts(Reals<double>(tensor), layout);
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
  Writer(const Tensor& tensor, std::vector<std::string> texts, const PrintLayout& layout)
      : tensor_(tensor),
        layout_(layout),
        texts_(std::move(texts)),
        summarised_(tensor.NumElements() > layout.summarise_threshold) {
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
    Append(layout_.open_bracket);
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) Separate(dimension, innermost);
      if (summarised_ && size > 2 * layout_.edge_items && i == layout_.edge_items) {
        Append("...");
        i = size - layout_.edge_items - 1;
        continue;
      }
      WriteDimension(dimension + 1, offset + i * stride);
    }
    Append(layout_.close_bracket);
  }

  void Append(const std::string& item) {
    text_ += item;
    column_ += item.size();
  }

  void Separate(int dimension, bool innermost) {
    if (innermost && static_cast<int64_t>(column_ + 1 + width_) < layout_.max_line_width) {
      Append(layout_.separator);
      return;
    }
    if (layout_.separator != " ") Append(layout_.separator);
    text_ += '\n' + std::string(dimension + 1, ' ');
    column_ = dimension + 1;
  }

  const Tensor& tensor_;
  const PrintLayout& layout_;
  const std::vector<std::string> texts_;
  const bool summarised_;
  std::string text_;
  size_t width_ = 0;
  size_t column_ = 0;
};

}  // namespace

std::string FormatTensor(const Tensor& tensor, const PrintLayout& layout) {
  std::vector<std::string> texts = Texts(tensor, layout);
  if (texts.empty() && tensor.NumElements() > 0) {
    return tensor.SummarizeValue(tensor.NumElements(), /*print_v2=*/true);
  }
  return Writer(tensor, std::move(texts), layout).Write();
}

}  // namespace tensorflow_ipu
