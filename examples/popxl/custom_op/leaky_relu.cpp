// cppimport
// A leaky ReLU with its gradient, for PopXL. The module is compiled when Python imports it.
#include <popart/op.hpp>
#include <popart/op/custom/parameterizedop.hpp>
#include <popart/op/custom/parameterizedopbinder.hpp>
#include <popart/opserialiser.hpp>
#include <popart/popx/opx.hpp>
#include <popart/popx/opxmanager.hpp>

#include <popops/ElementWise.hpp>

#include <pybind11/pybind11.h>

namespace pe = popops::expr;

namespace {

struct LeakyReluParams {
  float alpha;

  void appendAttributes(popart::OpSerialiserBase &serialiser) const {
    serialiser.appendAttribute("alpha", alpha);
  }
  static LeakyReluParams makeFromAttributes(const popart::Attributes &attributes) {
    return {attributes.getAttribute<popart::Attributes::Float>("alpha", 1e-2f)};
  }
};

class LeakyReluGradOp;

class LeakyReluOp : public popart::ParameterizedOp<LeakyReluOp, LeakyReluParams> {
 public:
  using ParameterizedOp::ParameterizedOp;
  static popart::OperatorIdentifier defaultOperatorId() {
    return {"example.ops", "LeakyRelu", 1, {1}, 1};
  }
  void setup() final { outInfo(0) = inInfo(0); }
  std::vector<std::unique_ptr<popart::Op>> getGradOps() final;
};

class LeakyReluGradOp : public popart::ParameterizedOp<LeakyReluGradOp, LeakyReluParams> {
 public:
  using ParameterizedOp::ParameterizedOp;
  static popart::OperatorIdentifier defaultOperatorId() {
    return {"example.ops", "LeakyReluGrad", 1, {2}, 1};
  }
  void setup() final { outInfo(0) = inInfo(0); }
  // The gradient of output 0, and input 0.
  const std::vector<popart::GradInOutMapper> &gradInputInfo() const final {
    static const std::vector<popart::GradInOutMapper> info = {{0, 0, popart::GradOpInType::GradOut},
                                                              {1, 0, popart::GradOpInType::In}};
    return info;
  }
  const std::map<int, int> &gradOutToNonGradIn() const final {
    static const std::map<int, int> info = {{0, 0}};
    return info;
  }
};

std::vector<std::unique_ptr<popart::Op>> LeakyReluOp::getGradOps() {
  std::vector<std::unique_ptr<popart::Op>> ops;
  ops.emplace_back(new LeakyReluGradOp(*this));
  return ops;
}

class LeakyReluOpx : public popart::popx::Opx {
 public:
  LeakyReluOpx(popart::Op *op, popart::popx::Devicex *device) : Opx(op, device) {
    verifyOp<LeakyReluOp>(op, {LeakyReluOp::defaultOperatorId()});
  }
  void grow(poplar::program::Sequence &program) const final {
    const float alpha = getOp<LeakyReluOp>().params().alpha;
    const auto expression =
        pe::Select(pe::Mul(pe::Const(alpha), pe::_1), pe::_1, pe::Lt(pe::_1, pe::Const(0.0f)));
    setOutTensor(
        0, popops::map(graph(), expression, {getInTensor(0)}, program, debugContext("leakyRelu")));
  }
};

class LeakyReluGradOpx : public popart::popx::Opx {
 public:
  LeakyReluGradOpx(popart::Op *op, popart::popx::Devicex *device) : Opx(op, device) {
    verifyOp<LeakyReluGradOp>(op, {LeakyReluGradOp::defaultOperatorId()});
  }
  void grow(poplar::program::Sequence &program) const final {
    const float alpha = getOp<LeakyReluGradOp>().params().alpha;
    const auto expression =
        pe::Select(pe::Mul(pe::Const(alpha), pe::_1), pe::_1, pe::Lt(pe::_2, pe::Const(0.0f)));
    setOutTensor(0, popops::map(graph(), expression, {getInTensor(0), getInTensor(1)}, program,
                                debugContext("leakyReluGrad")));
  }
};

popart::popx::OpxCreator<LeakyReluOpx> opxCreator({LeakyReluOp::defaultOperatorId()});
popart::popx::OpxCreator<LeakyReluGradOpx> gradOpxCreator({LeakyReluGradOp::defaultOperatorId()});

}  // namespace

PYBIND11_MODULE(leaky_relu, m) {
  pybind11::class_<LeakyReluParams>(m, "LeakyReluParams")
      .def(pybind11::init([](float alpha) { return LeakyReluParams{alpha}; }),
           pybind11::arg("alpha") = 1e-2f)
      .def_readwrite("alpha", &LeakyReluParams::alpha);
  popart::ir::op::makeParameterizedOpBindings<LeakyReluOp>(m, "LeakyRelu");
}

/*
<%
cfg["extra_compile_args"] = ["-std=c++14", "-fPIC", "-O1", "-DONNX_NAMESPACE=onnx"]
cfg["libraries"] = ["popart", "popops", "poplar"]
setup_pybind11(cfg)
%>
*/
