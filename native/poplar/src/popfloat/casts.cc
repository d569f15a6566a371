#include <cstddef>
#include <cstdint>
#include <string>

#include "popfloat/experimental/CastToHalf.hpp"
#include "popfloat/experimental/GfloatExprUtil.hpp"
#include "popfloat/experimental/codelets.hpp"
#include "poplar/IeeeHalf.hpp"
#include "poputil/exceptions.hpp"

namespace popfloat::experimental {
namespace {

constexpr uint16_t kNotANumber = 0x7e00;

constexpr const char* kFormats[] = {"INVALID_FORMAT",     "IEEE_FP16",          "QUANTISED_FP32",
                                    "QUANTISED_FP16",     "MIN_NORM_ALIGN_GF8", "ONE_FIELD_GF8",
                                    "MAX_NORM_ALIGN_GF8", "BFLOAT16",           "NO_DENORM_GF16",
                                    "ENABLE_DENORM_GF16"};
constexpr const char* kRounds[] = {"RZ", "RN", "RA", "RU", "RD", "SR", "SX", "INV"};
constexpr const char* kSpecs[] = {"AUTO", "FP32", "FP16", "INT8", "INT16", "INV"};
constexpr const char* kDensities[] = {"INVALID",
                                      "UNIFORM",
                                      "NORMAL",
                                      "TRUNCATED_NORMAL",
                                      "BERNOULLI",
                                      "LOGISTIC",
                                      "TRUNCATED_LOGISTIC",
                                      "LAPLACE",
                                      "TRUNCATED_LAPLACE",
                                      "LOGIT_NORMAL",
                                      "TRUNCATED_LOGIT_NORMAL",
                                      "TRIANGULAR"};

}  // namespace

void addCodelets(poplar::Graph&) {}

float halfToSingle(uint16_t ihalf) { return poplar::IeeeHalf::fromBits(ihalf); }

uint16_t singleToHalf(float value, bool enNanoo) {
  const poplar::IeeeHalf half(value);
  return enNanoo && half.isInf() ? kNotANumber : half.bits();
}

std::string formatTypeToString(FormatType fmt) { return kFormats[static_cast<size_t>(fmt)]; }
std::string roundTypeToString(RoundType rmode) { return kRounds[static_cast<size_t>(rmode)]; }
std::string specTypeToString(SpecType specType) { return kSpecs[static_cast<size_t>(specType)]; }
std::string srDensityTypeToString(SRDensityType dist) {
  return kDensities[static_cast<size_t>(dist)];
}

poplar::Type specTypeToPoplarType(SpecType specType) {
  switch (specType) {
    case SpecType::FP32:
      return poplar::FLOAT;
    case SpecType::FP16:
      return poplar::HALF;
    case SpecType::INT8:
      return poplar::CHAR;
    case SpecType::INT16:
      return poplar::SHORT;
    default:
      throw poputil::poplibs_error(
          "popfloat::experimental::specTypeToPoplarType: " + specTypeToString(specType) +
          " has no type; expected FP32, FP16, INT8 or INT16.");
  }
}

}  // namespace popfloat::experimental
