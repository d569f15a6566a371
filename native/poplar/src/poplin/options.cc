#include "poplin/options.h"

#include <vector>

#include "poputil/call_site.h"

namespace poplin {
namespace {

using poputil::OptionRule;

std::vector<OptionRule> Common() {
  const std::vector<const char*> flag = {"true", "false"};
  return {
      {"availableMemoryProportion", {}},
      {"partialsType", {"half", "float"}},
      {"partialsType.interTile", {"half", "float"}},
      {"partialsType.interIPU", {"half", "float"}},
      {"enableMultiStageReduce", flag},
      {"enableFastReduce", flag},
      {"enableConvDithering", flag},
      {"remapOutputTensor", flag},
      {"gatherOutput", flag},
      {"gatherConvOutput", flag},
      {"use128BitConvUnitLoad", flag},
      {"numIPUs", {}},
      {"tilesPerIPU", {}},
      {"planConstraints", {}},
      {"planConstraintsOutputFilename", {}},
  };
}

}  // namespace

void CheckMatMulOptions(const char* function, const poplar::OptionFlags& options) {
  static const auto* rules = [] {
    auto* all = new std::vector<OptionRule>(Common());
    all->push_back({"fullyConnectedPass",
                    {"NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"}});
    all->push_back({"inputRHSIsPreArranged", {"true", "false"}});
    return all;
  }();
  poputil::CheckOptions(function, options, *rules);
}

void CheckConvolutionOptions(const char* function, const poplar::OptionFlags& options) {
  static const auto* rules = [] {
    auto* all = new std::vector<OptionRule>(Common());
    all->push_back({"pass",
                    {"NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU",
                     "FC_INFERENCE_FWD", "FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU",
                     "NONE_PASS"}});
    return all;
  }();
  poputil::CheckOptions(function, options, *rules);
}

}  // namespace poplin
