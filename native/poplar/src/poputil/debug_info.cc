#include "poputil/DebugInfo.hpp"

namespace poputil {

using poplar::ProfileValue;

ProfileValue toProfileValue(const poplar::Type& type) {
  return ProfileValue(type.toString().cloneAsString());
}

ProfileValue toProfileValue(const poplar::Tensor& tensor) {
  if (!tensor.valid()) return ProfileValue("<none>");
  ProfileValue::Map map;
  map["shape"] = toProfileValue(tensor.shape());
  map["type"] = toProfileValue(tensor.elementType());
  map["name"] = ProfileValue(tensor.getDebugStr());
  return ProfileValue(map);
}

ProfileValue toProfileValue(const poplar::ComputeSet& computeSet) {
  return ProfileValue(computeSet.getId());
}

ProfileValue toProfileValue(const poplar::OptionFlags& options) {
  return poplar::getAsProfileValue(options);
}

namespace {

ProfileValue MapOf(const std::vector<ArgType>& args) {
  ProfileValue::Map map;
  for (const ArgType& arg : args) map[arg.n] = arg.pv;
  return ProfileValue(map);
}

}  // namespace

OpDebugInfo::OpDebugInfo(const poplar::DebugContext& debugContext, std::string api)
    : poplar::DebugInfo(debugContext, std::move(api)) {}

void OpDebugInfo::add(std::string name, const std::vector<ArgType>& args) {
  add(std::move(name), MapOf(args));
}

void OpDebugInfo::add(std::string name, const ProfileValue& value) {
  setValue(std::move(name), value);
}

PoplibsOpDebugInfo::PoplibsOpDebugInfo(const poplar::DebugContext& debugContext,
                                       const std::vector<ArgType>& args, const std::string& api)
    : OpDebugInfo(debugContext, "poplibs") {
  add("api", ProfileValue(api));
  if (!args.empty()) add("args", args);
}

void PoplibsOpDebugInfo::addOutputs(const std::vector<ArgType>& outputs) {
  if (!outputs.empty()) add("outputs", outputs);
}

void PoplibsOpDebugInfo::addOutput(const poplar::Tensor& output) {
  addOutputs({{"output", toProfileValue(output)}});
}

}  // namespace poputil
