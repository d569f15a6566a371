#include "print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "types.h"
#include "view.h"

namespace poplar::core {
namespace {

class TensorPrinter {
 public:
  TensorPrinter(Type type, const std::vector<size_t>& shape, const void* data,
                const PrintTensorFmt& format)
      : type_(type), shape_(shape), data_(static_cast<const char*>(data)), format_(format) {
    const size_t count = CountOf(shape);
    summarise_ = count > format.summariseThreshold;
    Choose(count);
  }

  std::string Text() {
    if (shape_.empty()) return Padded(0);
    std::string text;
    Dimension(0, 0, 0, &text);
    return text;
  }

 private:
  double Value(size_t index) const {
    double value;
    Convert(type_, data_ + index * SizeOf(type_), DOUBLE, &value, 1);
    return value;
  }

  // Digits before and behind the point: `digits` in all, as many before it as the largest needs.
  void Choose(size_t count) {
    if (!type_.isFloatingPoint()) {
      WidthOf(count);
      return;
    }
    double largest = 0, smallest = INFINITY;
    for (size_t i = 0; i < count; ++i) {
      const double magnitude = std::fabs(Value(i));
      if (!std::isfinite(magnitude)) continue;
      largest = std::max(largest, magnitude);
      if (magnitude > 0) smallest = std::min(smallest, magnitude);
    }
    const int before = largest < 10 ? 1 : static_cast<int>(std::floor(std::log10(largest))) + 1;
    const int digits = static_cast<int>(format_.digits);
    scientific_ = format_.floatFormat == PrintTensorFmt::FloatFormat::Scientific ||
                  (format_.floatFormat == PrintTensorFmt::FloatFormat::Auto &&
                   (before > digits || (largest > 0 && smallest < std::pow(10.0, 1 - digits))));
    behind_ = scientific_ ? std::max(0, digits - 1) : std::max(0, digits - before);
    WidthOf(count);
  }

  void WidthOf(size_t count) {
    for (size_t i = 0; i < count; ++i) width_ = std::max(width_, Element(i).size());
  }

  std::string Element(size_t index) const {
    char text[64];
    if (type_.isFloatingPoint()) {
      const bool free = format_.floatFormat == PrintTensorFmt::FloatFormat::None;
      std::snprintf(text, sizeof text,
                    free          ? "%.*g"
                    : scientific_ ? "%.*e"
                                  : "%.*f",
                    free ? 9 : behind_, Value(index));
    } else if (type_ == UNSIGNED_LONGLONG) {
      unsigned long long value;
      Convert(type_, data_ + index * SizeOf(type_), type_, &value, 1);
      std::snprintf(text, sizeof text, "%llu", value);
    } else {
      long long value;
      Convert(type_, data_ + index * SizeOf(type_), LONGLONG, &value, 1);
      std::snprintf(text, sizeof text, "%lld", value);
    }
    return text;
  }

  std::string Padded(size_t index) const {
    const std::string text = Element(index);
    const bool free = format_.floatFormat == PrintTensorFmt::FloatFormat::None;
    return free || shape_.empty() ? text : std::string(width_ - text.size(), ' ') + text;
  }

  // Indices that are shown; `kGap` stands for those between.
  static constexpr size_t kGap = ~size_t{0};
  std::vector<size_t> Shown(size_t size) const {
    std::vector<size_t> indices;
    const size_t edge = format_.edgeItems;
    for (size_t i = 0; i < size; ++i) {
      if (summarise_ && size > 2 * edge && i == edge) {
        indices.push_back(kGap);
        i = size - edge;
      }
      if (i < size) indices.push_back(i);
    }
    return indices;
  }

  void Dimension(size_t dimension, size_t first, size_t indent, std::string* text) {
    size_t step = 1;
    for (size_t d = dimension + 1; d < shape_.size(); ++d) step *= shape_[d];
    *text += format_.openBracket;
    const bool innermost = dimension + 1 == shape_.size();
    size_t line = indent + 1;
    bool is_first = true;
    for (const size_t i : Shown(shape_[dimension])) {
      if (!innermost) {
        *text += "\n" + std::string(indent + 2, ' ');
        if (i == kGap) {
          *text += "...";
        } else {
          Dimension(dimension + 1, first + i * step, indent + 2, text);
        }
        continue;
      }
      const std::string item = i == kGap ? "..." : Padded(first + i);
      if (!is_first) {
        if (line + 1 + item.size() > format_.maxLineWidth) {
          *text += "\n" + std::string(indent + 1, ' ');
          line = indent + 1;
        } else {
          *text += format_.separator;
          ++line;
        }
      }
      *text += item;
      line += item.size();
      is_first = false;
    }
    if (!innermost && shape_[dimension] > 0) *text += "\n" + std::string(indent, ' ');
    *text += format_.closeBracket;
  }

  const Type type_;
  const std::vector<size_t>& shape_;
  const char* const data_;
  const PrintTensorFmt& format_;
  bool summarise_ = false, scientific_ = false;
  int behind_ = 0;
  size_t width_ = 0;
};

}  // namespace

std::string TensorText(Type type, const std::vector<size_t>& shape, const void* data,
                       const PrintTensorFmt& format) {
  return TensorPrinter(type, shape, data, format).Text();
}

}  // namespace poplar::core
