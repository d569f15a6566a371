// Text and types of kinds of formats.
#ifndef popfloat_experimental_GfloatExprUtil_hpp
#define popfloat_experimental_GfloatExprUtil_hpp

#include <popfloat/experimental/GfloatExpr.hpp>
#include <poplar/Type.hpp>

#include <string>

namespace popfloat {
namespace experimental {

/// The name, as "BFLOAT16".
std::string formatTypeToString(FormatType fmt);
std::string roundTypeToString(RoundType rmode);
std::string specTypeToString(SpecType specType);
std::string srDensityTypeToString(SRDensityType dist);
/// The type in which numbers are stored. AUTO and INV have none: poplibs_error.
poplar::Type specTypeToPoplarType(SpecType specType);

}  // namespace experimental
}  // namespace popfloat

#endif  // popfloat_experimental_GfloatExprUtil_hpp
