#include "built_in_ops.h"

#include <map>
#include <string>
#include <typeinfo>
#include <utility>

#include "popart/op/add.hpp"
#include "popart/op/dropout.hpp"
#include "popart/op/gather.hpp"
#include "popart/op/groupnorm.hpp"
#include "popart/op/identity.hpp"
#include "popart/op/l1.hpp"
#include "popart/op/loop.hpp"
#include "popart/op/matmul.hpp"
#include "popart/op/mul.hpp"
#include "popart/op/negate.hpp"
#include "popart/op/relu.hpp"
#include "popart/op/reshape.hpp"
#include "popart/op/sqrt.hpp"
#include "popart/tensor.hpp"

namespace popart {
namespace {

using Factory = std::unique_ptr<Op> (*)(const OperatorIdentifier&, const Op::Settings&);

template <typename T>
std::unique_ptr<Op> Make(const OperatorIdentifier& opid, const Op::Settings& settings) {
  return std::unique_ptr<Op>(new T(opid, settings));
}

}  // namespace

std::unique_ptr<Op> MakeBuiltIn(const OperatorIdentifier& opid, const Op::Settings& settings) {
  static const std::map<OpType, Factory> factories = {
      {"Add", Make<AddOp>},
      {"Dropout", Make<DropoutOp>},
      {"Gather", Make<GatherOp>},
      {"GroupNormalization", Make<GroupNormOp>},
      {"Identity", Make<IdentityOp>},
      {"IdentityGrad", Make<IdentityGradOp>},
      {"L1", Make<L1Op>},
      {"Loop", Make<LoopOp>},
      {"MatMul", Make<MatMulOp>},
      {"Mul", Make<MulOp>},
      {"Neg", Make<NegateOp>},
      {"Relu", Make<ReluOp>},
      {"Reshape", Make<ReshapeOp>},
      {"Sqrt", Make<SqrtOp>},
  };
  if (opid.domain != Domain::ai_onnx && opid.domain != Domain::ai_onnx_ml &&
      opid.domain != Domain::ai_graphcore) {
    return nullptr;
  }
  const auto found = factories.find(opid.type);
  return found == factories.end() ? Make<detail::BuiltInOp>(opid, settings)
                                  : found->second(opid, settings);
}

bool IsBuiltIn(const Op& op) {
  if (op.isConvertibleTo<detail::BuiltInOp>()) return true;
  // Not one of a user's class that derives from it.
  const std::unique_ptr<Op> same = MakeBuiltIn(op.opid, op.settings);
  return same != nullptr && typeid(*same) == typeid(op);
}

namespace detail {

std::unique_ptr<Op> BuiltInOp::clone() const {
  std::unique_ptr<Op> made = MakeBuiltIn(opid, settings);
  return made ? std::move(made) : std::unique_ptr<Op>(new BuiltInOp(*this));
}

void BuiltInOp::setup() {
  for (const auto& entry : output->tensorMap()) {
    if (entry.second->info.isSet()) continue;
    throw error(
        "The shape of output {} of {} is not known. Connect a tensor that is in the graph, or "
        "set its info before setup()",
        entry.first, debugName());
  }
}

}  // namespace detail
}  // namespace popart
