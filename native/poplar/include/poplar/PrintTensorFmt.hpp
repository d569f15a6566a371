// How tensors are printed.
#ifndef poplar_PrintTensorFmt_hpp
#define poplar_PrintTensorFmt_hpp

namespace poplar {

/// The format of PrintTensor.
struct PrintTensorFmt {
  enum class FloatFormat { Auto, Fixed, Scientific, None };

  unsigned summariseThreshold;
  unsigned edgeItems;
  unsigned maxLineWidth;
  unsigned digits;
  FloatFormat floatFormat;
  char separator, openBracket, closeBracket;

  explicit PrintTensorFmt(unsigned summariseThreshold = 1000, unsigned edgeItems = 3,
                          unsigned maxLineWidth = 75, unsigned digits = 8,
                          FloatFormat floatFormat = FloatFormat::Auto, char separator = ' ',
                          char openBracket = '[', char closeBracket = ']')
      : summariseThreshold(summariseThreshold),
        edgeItems(edgeItems),
        maxLineWidth(maxLineWidth),
        digits(digits),
        floatFormat(floatFormat),
        separator(separator),
        openBracket(openBracket),
        closeBracket(closeBracket) {}

  /// All elements in one line, with as many digits as they need.
  static PrintTensorFmt disableFormatting() {
    return PrintTensorFmt(0xffffffffu, 3, 0xffffffffu, 8, FloatFormat::None);
  }
};

}  // namespace poplar

#endif  // poplar_PrintTensorFmt_hpp
