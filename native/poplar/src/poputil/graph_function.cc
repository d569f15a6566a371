#include "poputil/GraphFunction.hpp"

#include "poputil/Util.hpp"
#include "poputil/call.h"

namespace poputil::graphfn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Program;
using poplar::program::Sequence;

namespace {

bool IsRead(ArgType type) { return type == ArgType::InputArg || type == ArgType::InOutArg; }
bool IsWritten(ArgType type) { return type == ArgType::OutputArg || type == ArgType::InOutArg; }

}  // namespace

VoidFunction::VoidFunction(Graph& graph, Signature signature, Body f, bool inlined,
                           const DebugContext& debugContext)
    : graph_(graph), signature_(std::move(signature)), body_(std::move(f)), inlined_(inlined) {
  if (inlined_) return;
  for (const ArgSig& argument : signature_) {
    const bool is_made = argument.type == ArgType::CreatedArg;
    parameters_.push_back(
        is_made ? Tensor()
                : graph.clone(argument.similarTensor, {debugContext, argument.debugName}));
  }
  Sequence program(debugContext);
  body_(parameters_, program);
  function_ = graph.addFunction(program);
}

void VoidFunction::operator()(std::vector<Tensor>& args, Sequence& prog,
                              const DebugContext& debugContext) {
  const Call call("poputil::graphfn::VoidFunction", debugContext);
  if (args.size() != signature_.size()) {
    call.Fail(std::to_string(args.size()) + " arguments are given; the function has " +
              std::to_string(signature_.size()) + ".");
  }
  if (inlined_) return body_(args, prog);
  for (size_t i = 0; i < args.size(); ++i) {
    if (signature_[i].type == ArgType::CreatedArg) continue;
    call.RequireShape("an argument", args[i], parameters_[i].shape());
    if (IsRead(signature_[i].type)) prog.add(Copy(args[i], parameters_[i], false, debugContext));
  }
  prog.add(poplar::program::Call(function_, debugContext));
  for (size_t i = 0; i < args.size(); ++i) {
    if (IsWritten(signature_[i].type)) {
      prog.add(Copy(parameters_[i], args[i], false, debugContext));
    } else if (signature_[i].type == ArgType::CreatedArg) {
      call.Require(parameters_[i].valid(),
                   "the function did not make argument " + std::to_string(i) + ".");
      args[i] = duplicate(graph_, parameters_[i], prog, debugContext);
    }
  }
}

ProgramFunction::ProgramFunction(Graph& graph, Signature signature, Body f, bool inlined,
                                 const DebugContext& debugContext)
    : function_(
          graph, std::move(signature),
          [f](std::vector<Tensor>& args, Sequence& prog) { prog.add(f(args)); }, inlined,
          debugContext) {}

Program ProgramFunction::operator()(std::vector<Tensor>& args, const DebugContext& debugContext) {
  Sequence program(debugContext);
  function_(args, program, debugContext);
  return program;
}

namespace {

Signature WithResult(Signature signature) {
  signature.push_back(created("result"));
  return signature;
}

}  // namespace

TensorFunction::TensorFunction(Graph& graph, Signature signature, Body f, bool inlined,
                               const DebugContext& debugContext)
    : function_(
          graph, WithResult(std::move(signature)),
          [f](std::vector<Tensor>& args, Sequence& prog) {
            std::vector<Tensor> own(args.begin(), args.end() - 1);
            args.back() = f(own, prog);
            std::copy(own.begin(), own.end(), args.begin());
          },
          inlined, debugContext) {}

Tensor TensorFunction::operator()(std::vector<Tensor>& args, Sequence& prog,
                                  const DebugContext& debugContext) {
  args.emplace_back();
  function_(args, prog, debugContext);
  const Tensor result = args.back();
  args.pop_back();
  return result;
}

}  // namespace poputil::graphfn
