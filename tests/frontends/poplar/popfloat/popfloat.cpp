// Cases of popfloat; see test_casts.py.
#include "../cases.h"

#include <popfloat/experimental/CastToHalf.hpp>
#include <popfloat/experimental/GfloatExprUtil.hpp>
#include <popfloat/experimental/codelets.hpp>

namespace {

void casts(Case &c) {
  using namespace popfloat::experimental;
  addCodelets(c.graph);
  const float value = static_cast<float>(c.number("value"));
  c.note("bits", singleToHalf(value));
  c.note("bits_of_overflow", singleToHalf(value, true));
  c.note("back", halfToSingle(singleToHalf(value)));
}

void names(Case &c) {
  using namespace popfloat::experimental;
  c.note("format", formatTypeToString(FormatType::BFLOAT16) == "BFLOAT16");
  c.note("round", roundTypeToString(RoundType::SR) == "SR");
  c.note("spec", specTypeToString(SpecType::INT16) == "INT16");
  c.note("density", srDensityTypeToString(SRDensityType::TRIANGULAR) == "TRIANGULAR");
  c.note("type", specTypeToPoplarType(SpecType::FP16) == poplar::HALF);
  if (c.flag("automatic")) specTypeToPoplarType(SpecType::AUTO);
}

const Cases cases = {{"casts", casts}, {"names", names}};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
