// Non-linearities of numbers, with their derivatives.
#ifndef TENSORFLOW_IPU_POPNN_ACTIVATION_FUNCTIONS_H_
#define TENSORFLOW_IPU_POPNN_ACTIVATION_FUNCTIONS_H_

#include <algorithm>
#include <cmath>

#include "popnn/NonLinearityDef.hpp"

namespace popnn {

// `Derivative` takes the result, or the input where kOfInput says so.
struct SigmoidFunction {
  static constexpr bool kOfInput = false;
  static float Value(float x) { return 1 / (1 + std::exp(-x)); }
  static float Derivative(float y) { return y * (1 - y); }
};

struct HardSigmoidFunction {
  static constexpr bool kOfInput = false;
  static constexpr float kSlope = 0.2f;
  static float Value(float x) { return std::max(0.0f, std::min(1.0f, kSlope * x + 0.5f)); }
  static float Derivative(float y) { return y > 0 && y < 1 ? kSlope : 0.0f; }
};

struct ReluFunction {
  static constexpr bool kOfInput = false;
  static float Value(float x) { return x > 0 ? x : x != x ? x : 0.0f; }
  static float Derivative(float y) { return y > 0 ? 1.0f : 0.0f; }
};

struct TanhFunction {
  static constexpr bool kOfInput = false;
  static float Value(float x) { return std::tanh(x); }
  static float Derivative(float y) { return 1 - y * y; }
};

struct GeluFunction {
  static constexpr bool kOfInput = true;
  static constexpr float kScale = 0.7978845608f;  // sqrt(2 / pi)
  static constexpr float kCube = 0.044715f;
  static float Value(float x) {
    return 0.5f * x * (1 + std::tanh(kScale * (x + kCube * x * x * x)));
  }
  static float Derivative(float x) {
    const float t = std::tanh(kScale * (x + kCube * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kScale * (1 + 3 * kCube * x * x);
  }
};

struct GeluErfFunction {
  static constexpr bool kOfInput = true;
  static constexpr float kRoot = 0.7071067812f;     // 1 / sqrt(2)
  static constexpr float kDensity = 0.3989422804f;  // 1 / sqrt(2 pi)
  static float Value(float x) { return 0.5f * x * (1 + std::erf(kRoot * x)); }
  static float Derivative(float x) {
    return 0.5f * (1 + std::erf(kRoot * x)) + x * kDensity * std::exp(-0.5f * x * x);
  }
};

struct SwishFunction {
  static constexpr bool kOfInput = true;
  static float Value(float x) { return x * SigmoidFunction::Value(x); }
  static float Derivative(float x) {
    const float s = SigmoidFunction::Value(x);
    return s + x * s * (1 - s);
  }
};

// Calls `use` with an object of the class of an elementwise non-linearity; false for others.
template <typename Use>
bool WithFunction(NonLinearityType type, const Use& use) {
  switch (type) {
    case NonLinearityType::SIGMOID:
      use(SigmoidFunction());
      return true;
    case NonLinearityType::HARD_SIGMOID:
      use(HardSigmoidFunction());
      return true;
    case NonLinearityType::RELU:
      use(ReluFunction());
      return true;
    case NonLinearityType::TANH:
      use(TanhFunction());
      return true;
    case NonLinearityType::GELU:
      use(GeluFunction());
      return true;
    case NonLinearityType::GELU_ERF:
      use(GeluErfFunction());
      return true;
    case NonLinearityType::SWISH:
      use(SwishFunction());
      return true;
    default:
      return false;
  }
}

}  // namespace popnn

#endif  // TENSORFLOW_IPU_POPNN_ACTIVATION_FUNCTIONS_H_
