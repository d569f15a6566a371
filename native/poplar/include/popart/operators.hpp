// Identifiers of built-in ops.
#ifndef popart_operators_hpp
#define popart_operators_hpp

#include <popart/operatoridentifier.hpp>

namespace popart {
namespace Onnx {
namespace AiOnnx {
namespace OpSet9 {
extern const OperatorIdentifier Add, Identity, MatMul, Mul, Neg, Relu, Reshape, Sqrt;
}  // namespace OpSet9
}  // namespace AiOnnx
namespace Operators {
extern const OperatorIdentifier Add_7, Identity_1, MatMul_9, Mul_7, Neg_6, Relu_6, Reshape_5,
    Sqrt_6;
}  // namespace Operators
namespace CustomOperators {
extern const OperatorIdentifier L1;
}  // namespace CustomOperators
namespace GradOperators {
extern const OperatorIdentifier IdentityGrad, ReluGrad;
}  // namespace GradOperators
}  // namespace Onnx
}  // namespace popart

#endif  // popart_operators_hpp
