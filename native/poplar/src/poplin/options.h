// Options of products and convolutions.
#ifndef TENSORFLOW_IPU_POPLIN_OPTIONS_H_
#define TENSORFLOW_IPU_POPLIN_OPTIONS_H_

#include "poplar/OptionFlags.hpp"

namespace poplin {

// Throw invalid_option, with the name of the function, for what it does not have.
void CheckMatMulOptions(const char* function, const poplar::OptionFlags& options);
void CheckConvolutionOptions(const char* function, const poplar::OptionFlags& options);

}  // namespace poplin

#endif  // TENSORFLOW_IPU_POPLIN_OPTIONS_H_
