// Kinds of number formats, of rounding, and of noise for stochastic rounding.
#ifndef popfloat_experimental_GfloatExpr_hpp
#define popfloat_experimental_GfloatExpr_hpp

namespace popfloat {
namespace experimental {

enum class FormatType {
  INVALID_FORMAT,
  IEEE_FP16,
  QUANTISED_FP32,
  QUANTISED_FP16,
  MIN_NORM_ALIGN_GF8,
  ONE_FIELD_GF8,
  MAX_NORM_ALIGN_GF8,
  BFLOAT16,
  NO_DENORM_GF16,
  ENABLE_DENORM_GF16
};

/// To zero, to nearest even, away from zero, up, down, and stochastic.
enum class RoundType { RZ, RN, RA, RU, RD, SR, SX, INV };

enum class SpecType { AUTO, FP32, FP16, INT8, INT16, INV };

enum class SRDensityType {
  INVALID,
  UNIFORM,
  NORMAL,
  TRUNCATED_NORMAL,
  BERNOULLI,
  LOGISTIC,
  TRUNCATED_LOGISTIC,
  LAPLACE,
  TRUNCATED_LAPLACE,
  LOGIT_NORMAL,
  TRUNCATED_LOGIT_NORMAL,
  TRIANGULAR
};

}  // namespace experimental
}  // namespace popfloat

#endif  // popfloat_experimental_GfloatExpr_hpp
