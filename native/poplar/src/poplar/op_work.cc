#include "poplar/core/OpWork.hpp"

#include <map>
#include <utility>

namespace poplar::core {
namespace {

std::map<std::string, WorkFunction>& Functions() {
  static auto* functions = new std::map<std::string, WorkFunction>();
  return *functions;
}

// Multiply-adds of a tile and cycle.
struct ChipRate {
  const char* architecture;
  unsigned half, single;
};

}  // namespace

WorkRegistration::WorkRegistration(const std::string& kernel, WorkFunction function) {
  Functions()[kernel] = std::move(function);
}

MatrixWork workOf(const KernelSpec& spec) {
  const auto found = Functions().find(spec.name);
  return found == Functions().end() ? MatrixWork{} : found->second(spec);
}

unsigned multiplyAddsPerCycle(const Target& target, const Type& type) {
  static const ChipRate rates[] = {
#include "rates.inc"
  };
  const ChipRate* rate = &rates[1];  // a target without such units is priced as the second
  for (const ChipRate& row : rates) {
    if (target.getTargetArchString() == row.architecture) rate = &row;
  }
  return type == HALF ? rate->half : rate->single;
}

}  // namespace poplar::core
