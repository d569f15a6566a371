// Identifiers of ops of ONNX.
#ifndef popart_onnxoperators_gen_hpp
#define popart_onnxoperators_gen_hpp

#include <popart/operators.hpp>

#endif  // popart_onnxoperators_gen_hpp
