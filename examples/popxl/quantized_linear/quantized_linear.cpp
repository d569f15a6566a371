// cppimport
// A product with a weight whose elements are integers of 8 bits, and its gradient, for PopXL.
#include <popart/op.hpp>
#include <popart/op/custom/parameterizedop.hpp>
#include <popart/op/custom/parameterizedopbinder.hpp>
#include <popart/opserialiser.hpp>
#include <popart/popx/devicex.hpp>
#include <popart/popx/irlowering.hpp>
#include <popart/popx/opx.hpp>
#include <popart/popx/opxmanager.hpp>

#include <poplin/MatMul.hpp>
#include <poputil/VertexTemplates.hpp>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

using popart::GradInOutMapper;
using popart::GradOpInType;

namespace {

// The operation has no parameters; the class of its base wants a struct.
struct NoParams {
  void appendAttributes(popart::OpSerialiserBase & /*serialiser*/) const {}
  static NoParams makeFromAttributes(const popart::Attributes & /*attributes*/) { return {}; }
};

// x (rows, in), codes (in, out) and scales (out) become (rows, out).
class QuantizedLinearOp : public popart::ParameterizedOp<QuantizedLinearOp, NoParams> {
 public:
  using ParameterizedOp::ParameterizedOp;
  static popart::OperatorIdentifier defaultOperatorId() {
    return {"example.ops", "QuantizedLinear", 1, {3}, 1};
  }
  void setup() final {
    if (inShape(0).at(1) != inShape(1).at(0)) {
      throw popart::error("QuantizedLinear: x has {} columns, and codes have {} rows",
                          inShape(0).at(1), inShape(1).at(0));
    }
    outInfo(0) = {inInfo(0).dataType(), {inShape(0).at(0), inShape(1).at(1)}};
  }
  std::vector<std::unique_ptr<popart::Op>> getGradOps() final;
};

// The gradient of x. The weight is frozen: it has none.
class QuantizedLinearGradOp : public popart::ParameterizedOp<QuantizedLinearGradOp, NoParams> {
 public:
  using ParameterizedOp::ParameterizedOp;
  static popart::OperatorIdentifier defaultOperatorId() {
    return {"example.ops", "QuantizedLinearGrad", 1, {3}, 1};
  }
  void setup() final { outInfo(0) = {inInfo(0).dataType(), {inShape(0).at(0), inShape(1).at(0)}}; }
  const std::vector<GradInOutMapper> &gradInputInfo() const final {
    static const std::vector<GradInOutMapper> info = {
        {0, 0, GradOpInType::GradOut}, {1, 1, GradOpInType::In}, {2, 2, GradOpInType::In}};
    return info;
  }
  const std::map<int, int> &gradOutToNonGradIn() const final {
    static const std::map<int, int> info = {{0, 0}};
    return info;
  }
};

std::vector<std::unique_ptr<popart::Op>> QuantizedLinearOp::getGradOps() {
  std::vector<std::unique_ptr<popart::Op>> ops;
  ops.emplace_back(new QuantizedLinearGradOp(*this));
  return ops;
}

// Both operations make the weight from its codes, and take the product with it or its transpose.
template <typename OP, bool IS_GRADIENT>
class ProductOpx : public popart::popx::Opx {
 public:
  ProductOpx(popart::Op *op, popart::popx::Devicex *device) : Opx(op, device) {
    verifyOp<OP>(op, {OP::defaultOperatorId()});
    const std::string source = __FILE__;
    graph().addCodelets(source.substr(0, source.rfind('/') + 1) + "codelets.cpp");
  }

  void grow(poplar::program::Sequence &program) const final {
    const poplar::Tensor x = getInTensor(0), codes = getInTensor(1), scales = getInTensor(2);
    const poplar::Type type = x.elementType();
    const poplar::OptionFlags &options = dv_p->lowering().matmulOptions;
    const std::size_t in = codes.dim(0), out = codes.dim(1);
    const poplar::Tensor weight =
        poplin::createMatMulInputRHS(graph(), type, {x.dim(0), in}, {in, out},
                                     debugContext("weight"), options, &dv_p->matmulCache);
    const poplar::ComputeSet rows = graph().addComputeSet(debugContext("dequantize"));
    const std::size_t tiles = graph().getTarget().getNumTiles();
    for (std::size_t row = 0; row < in; ++row) {
      const poplar::VertexRef vertex =
          graph().addVertex(rows, poputil::templateVertex("Dequantize", type),
                            {{"codes", codes[row]}, {"scales", scales}, {"weights", weight[row]}});
      graph().setTileMapping(vertex, static_cast<unsigned>(row % tiles));
      graph().setPerfEstimate(vertex, 20 + 4 * out);
    }
    program.add(poplar::program::Execute(rows));
    const poplar::Tensor factor = IS_GRADIENT ? weight.transpose() : weight;
    setOutTensor(0, poplin::matMul(graph(), x, factor, program, type, debugContext("product"),
                                   options, &dv_p->matmulCache));
  }
};

using LinearOpx = ProductOpx<QuantizedLinearOp, false>;
using LinearGradOpx = ProductOpx<QuantizedLinearGradOp, true>;
popart::popx::OpxCreator<LinearOpx> opxCreator({QuantizedLinearOp::defaultOperatorId()});
popart::popx::OpxCreator<LinearGradOpx> gradOpxCreator(
    {QuantizedLinearGradOp::defaultOperatorId()});

}  // namespace

PYBIND11_MODULE(quantized_linear, m) {
  pybind11::class_<NoParams>(m, "NoParams").def(pybind11::init<>());
  popart::ir::op::makeParameterizedOpBindings<QuantizedLinearOp>(m, "QuantizedLinear");
}

/*
<%
cfg["extra_compile_args"] = ["-std=c++14", "-fPIC", "-O1", "-DONNX_NAMESPACE=onnx"]
cfg["libraries"] = ["popart", "poplin", "poputil", "poplar"]
setup_pybind11(cfg)
%>
*/
