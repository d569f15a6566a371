// Operations of a user: what tests of PopART load. The classes are in the form that documents show.
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <popart/graph.hpp>
#include <popart/ir.hpp>
#include <popart/names.hpp>
#include <popart/op.hpp>
#include <popart/op/add.hpp>
#include <popart/op/identity.hpp>
#include <popart/op/negate.hpp>
#include <popart/op/relu.hpp>
#include <popart/operators.hpp>
#include <popart/opmanager.hpp>
#include <popart/opserialiser.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/popx/devicex.hpp>
#include <popart/popx/opx.hpp>
#include <popart/popx/opxmanager.hpp>
#include <popart/shapeinference.hpp>
#include <popart/transforms/transform.hpp>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace CustomOperators {
const popart::OperatorIdentifier Leaky = {"test.cpp", "Leaky", 1};
const popart::OperatorIdentifier Product = {"test.cpp", "Product", 1};
const popart::OperatorIdentifier Halves = {"test.cpp", "Halves", 1};
const popart::OperatorIdentifier Negate = {"test.cpp", "NegateInPlace", 1};
const popart::OperatorIdentifier NegateWeight = {"test.cpp", "NegateWeight", 1};
const popart::OperatorIdentifier NegateCodes = {"test.cpp", "NegateCodes", 1};
const popart::OperatorIdentifier Replicas = {"test.cpp", "Replicas", 1};
const popart::OperatorIdentifier Rotate = {"test.cpp", "Rotate", 1};
const popart::OperatorIdentifier NoLowering = {"test.cpp", "NoLowering", 1};
const popart::OperatorIdentifier NoGradient = {"test.cpp", "NoGradient", 1};
const popart::OperatorIdentifier Fails = {"test.cpp", "Fails", 1};
const popart::OperatorIdentifier Draw = {"test.cpp", "Draw", 1};
const popart::OperatorIdentifier Twice = {"test.cpp", "Twice", 1};
const popart::OperatorIdentifier Placed = {"test.cpp", "Placed", 1};
}  // namespace CustomOperators
namespace CustomGradOperators {
const popart::OperatorIdentifier LeakyGrad = {"test.cpp", "LeakyGrad", 1};
const popart::OperatorIdentifier ProductGrad = {"test.cpp", "ProductGrad", 1};
const popart::OperatorIdentifier HalvesGrad = {"test.cpp", "HalvesGrad", 1};
}  // namespace CustomGradOperators

using popart::Op;
using popart::Shape;
using poplar::Tensor;
using poplar::program::Execute;
using poplar::program::Sequence;

namespace {

const popart::OpDefinition::DataTypes T = {popart::DataType::FLOAT16, popart::DataType::FLOAT};

// Codelets of one element each.
const char *codelets = R"(
#include <poplar/Vertex.hpp>
template <typename T>
class LeakyVertex : public poplar::Vertex {
 public:
  poplar::Input<T> x;
  poplar::Output<T> out;
  float alpha;
  bool compute() { *out = *x < T(0) ? T(float(*x) * alpha) : T(*x); return true; }
};
template class LeakyVertex<float>;
template class LeakyVertex<half>;
class LeakyGradVertex : public poplar::Vertex {
 public:
  poplar::Input<float> gradient, x;
  poplar::Output<float> out;
  float alpha;
  bool compute() { *out = *gradient * (*x < 0 ? alpha : 1.0f); return true; }
};
class ProductVertex : public poplar::Vertex {
 public:
  poplar::Input<float> a, b;
  poplar::Output<float> out;
  bool compute() { *out = *a * *b; return true; }
};
class NegateCodesVertex : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<signed char>> x;
  poplar::Output<poplar::Vector<signed char>> out;
  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) out[i] = -x[i];
    return true;
  }
};
class DrawVertex : public poplar::Vertex {
 public:
  poplar::Input<unsigned> seed;
  poplar::Output<float> out;
  bool compute() { *out = float(*seed % 4096); return true; }
};
class NegateVertex : public poplar::Vertex {
 public:
  poplar::InOut<float> x;
  bool compute() { *x = -*x; return true; }
};
)";

void loadCodelets(poplar::Graph &graph) {
  std::stringstream source(codelets);
  if (!graph.hasCodelet("NegateVertex")) graph.addCodelets(source, "-O1");
}

// --- Leaky ReLU, with an attribute ---

class LeakyGradOp;

class LeakyOp : public Op {
 public:
  LeakyOp(const popart::OperatorIdentifier &opid, float alpha, const Op::Settings &settings)
      : Op(opid, settings), alpha(alpha) {}
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new LeakyOp(*this)); }
  void setup() final { outInfo(0) = inInfo(0); }
  void appendAttributes(popart::OpSerialiserBase &os) const override {
    Op::appendAttributes(os);
    os.appendAttribute("alpha", alpha);
  }
  std::vector<std::unique_ptr<Op>> getGradOps() final;
  float getSubgraphValue() const final { return getHighSubgraphValue(); }
  float alpha;
};

class LeakyGradOp : public Op {
 public:
  explicit LeakyGradOp(const LeakyOp &forward)
      : Op(CustomGradOperators::LeakyGrad, forward.settings), alpha(forward.alpha) {}
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new LeakyGradOp(*this)); }
  void setup() final { outInfo(0) = inInfo(0); }
  const std::vector<popart::GradInOutMapper> &gradInputInfo() const override {
    static const std::vector<popart::GradInOutMapper> info = {{0, 0, popart::GradOpInType::GradOut},
                                                              {1, 0, popart::GradOpInType::In}};
    return info;
  }
  const std::map<int, int> &gradOutToNonGradIn() const override {
    static const std::map<int, int> info = {{0, 0}};
    return info;
  }
  float getSubgraphValue() const final { return getHighSubgraphValue(); }
  float alpha;
};

std::vector<std::unique_ptr<Op>> LeakyOp::getGradOps() {
  std::vector<std::unique_ptr<Op>> ops;
  ops.emplace_back(new LeakyGradOp(*this));
  return ops;
}

popart::OpDefinition leakyDefinition({popart::OpDefinition::Inputs({{"input", T}}),
                                      popart::OpDefinition::Outputs({{"output", T}}),
                                      popart::OpDefinition::Attributes({{"alpha", {"*"}}})});
popart::OpCreator<LeakyOp> leakyCreator(
    popart::OpDefinitions({{CustomOperators::Leaky, leakyDefinition}}),
    [](const popart::OpCreatorInfo &info) {
      const float alpha = info.attributes.getAttribute<popart::Attributes::Float>("alpha", 1e-2f);
      return std::unique_ptr<Op>(new LeakyOp(info.opid, alpha, info.settings));
    },
    true);

class LeakyOpx : public popart::popx::Opx {
 public:
  LeakyOpx(Op *op, popart::popx::Devicex *device) : Opx(op, device) {
    verifyOp<LeakyOp>(op, {CustomOperators::Leaky});
  }
  void grow(Sequence &program) const final {
    loadCodelets(graph());
    const Tensor x = getInTensor(0);
    const Tensor out = graph().clone(x, debugContext("out"));
    const poplar::ComputeSet set = graph().addComputeSet(debugContext("leaky"));
    const std::string name = x.elementType() == poplar::HALF ? "half" : "float";
    for (std::size_t i = 0; i < x.numElements(); ++i) {
      const poplar::VertexRef vertex = graph().addVertex(
          set, "LeakyVertex<" + name + ">", {{"x", x.flatten()[i]}, {"out", out.flatten()[i]}});
      graph().setInitialValue(vertex["alpha"], getOp<LeakyOp>().alpha);
      graph().setTileMapping(vertex, 0);
    }
    program.add(Execute(set));
    setOutTensor(0, out);
  }
};
popart::popx::OpxCreator<LeakyOpx> leakyOpxCreator({CustomOperators::Leaky});

class LeakyGradOpx : public popart::popx::Opx {
 public:
  LeakyGradOpx(Op *op, popart::popx::Devicex *device) : Opx(op, device) {
    verifyOp<LeakyGradOp>(op);
  }
  void grow(Sequence &program) const final {
    loadCodelets(graph());
    const Tensor gradient = getInTensor(0).flatten(), x = getInTensor(1).flatten();
    const Tensor out = graph().clone(getInTensor(1));
    const poplar::ComputeSet set = graph().addComputeSet(debugContext("leakyGrad"));
    for (std::size_t i = 0; i < x.numElements(); ++i) {
      const poplar::VertexRef vertex =
          graph().addVertex(set, "LeakyGradVertex",
                            {{"gradient", gradient[i]}, {"x", x[i]}, {"out", out.flatten()[i]}});
      graph().setInitialValue(vertex["alpha"], getOp<LeakyGradOp>().alpha);
      graph().setTileMapping(vertex, 0);
    }
    program.add(Execute(set));
    setOutTensor(0, out);
  }
};
popart::popx::OpxCreator<LeakyGradOpx> leakyGradOpxCreator(CustomGradOperators::LeakyGrad);

popart::RegisterShapeInferenceFunction leakyShapes(CustomOperators::Leaky,
                                                   [](popart::ShapeInferenceContext &context) {
                                                     propagateElemTypeFromInputToOutput(context, 0,
                                                                                        0);
                                                     propagateShapeFromInputToOutput(context, 0, 0);
                                                   });

}  // namespace

// An op with no class: its schema infers the type and shape, in the form of ONNX.
namespace ONNX_NAMESPACE {
ONNX_OPERATOR_SET_SCHEMA_EX(Described, TestCpp, "test.cpp", 1, false,
                            OpSchema()
                                .SetDoc("A copy.")
                                .Input(0, "x", "The input", "T")
                                .Output(0, "y", "The output", "T")
                                .Attr("alpha", "A factor", "FLOAT", 0.1f)
                                .TypeConstraint("T", {"tensor(float)"}, "Floats")
                                .TypeAndShapeInferenceFunction(propagateShapeAndTypeFromFirstInput))

static bool registerSchemas() {
  OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion("test.cpp", 1, 1);
  RegisterSchema(GetOpSchema<ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(TestCpp, 1, Described)>());
  return true;
}
static const bool schemasAreRegistered = registerSchemas();
}  // namespace ONNX_NAMESPACE

namespace {

// --- Product of two tensors: one gradient op for each of them ---

class ProductGradOp : public Op {
 public:
  ProductGradOp(const Op &forward, int index)
      : Op(CustomGradOperators::ProductGrad, forward.settings),
        inputs({{0, 0, popart::GradOpInType::GradOut}, {1, 1 - index, popart::GradOpInType::In}}),
        outputs({{0, index}}) {}
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new ProductGradOp(*this)); }
  void setup() final { outInfo(0) = inInfo(0); }
  const std::vector<popart::GradInOutMapper> &gradInputInfo() const final { return inputs; }
  const std::map<int, int> &gradOutToNonGradIn() const final { return outputs; }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }

 private:
  std::vector<popart::GradInOutMapper> inputs;
  std::map<int, int> outputs;
};

class ProductOp : public Op {
 public:
  using Op::Op;
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new ProductOp(*this)); }
  void setup() final { outInfo(0) = prettyNpOut(inInfo(0), inInfo(1)); }
  std::vector<std::unique_ptr<Op>> getGradOps() final {
    std::vector<std::unique_ptr<Op>> ops;
    for (int i = 0; i < 2; ++i) ops.emplace_back(new ProductGradOp(*this, i));
    return ops;
  }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
};
popart::OpCreator<ProductOp> productCreator({{CustomOperators::Product, {}}});

class ProductOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    loadCodelets(graph());
    const Tensor a = getInTensor(0).flatten(), b = getInTensor(1).flatten();
    const Tensor out = graph().clone(getInTensor(0));
    const poplar::ComputeSet set = graph().addComputeSet();
    for (std::size_t i = 0; i < a.numElements(); ++i) {
      const poplar::VertexRef vertex = graph().addVertex(
          set, "ProductVertex", {{"a", a[i]}, {"b", b[i]}, {"out", out.flatten()[i]}});
      graph().setTileMapping(vertex, 0);
    }
    program.add(Execute(set));
    setOutTensor(0, out);
  }
};
popart::popx::OpxCreator<ProductOpx> productOpxCreator({CustomOperators::Product,
                                                        CustomGradOperators::ProductGrad});

// --- The two halves of a tensor: several outputs that are views ---

class HalvesGradOp : public Op {
 public:
  explicit HalvesGradOp(const Op &forward)
      : Op(CustomGradOperators::HalvesGrad, forward.settings) {}
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new HalvesGradOp(*this)); }
  void setup() final {
    Shape shape = inShape(0);
    shape[0] *= 2;
    outInfo(0) = {inInfo(0).dataType(), shape};
  }
  const std::vector<popart::GradInOutMapper> &gradInputInfo() const final {
    static const std::vector<popart::GradInOutMapper> info = {
        {0, 0, popart::GradOpInType::GradOut}, {1, 1, popart::GradOpInType::GradOut}};
    return info;
  }
  const std::map<int, int> &gradOutToNonGradIn() const final {
    static const std::map<int, int> info = {{0, 0}};
    return info;
  }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
};

class HalvesOp : public Op {
 public:
  using Op::Op;
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new HalvesOp(*this)); }
  void setup() final {
    Shape shape = inShape(0);
    shape[0] /= 2;
    outInfo(0) = outInfo(1) = {inInfo(0).dataType(), shape};
  }
  std::vector<std::unique_ptr<Op>> getGradOps() final {
    std::vector<std::unique_ptr<Op>> ops;
    ops.emplace_back(new HalvesGradOp(*this));
    return ops;
  }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
};
popart::OpCreator<HalvesOp> halvesCreator({{CustomOperators::Halves, {}}});

class HalvesOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &) const final {
    const Tensor x = getInTensor(0);
    setOutTensor(0, x.slice(0, x.dim(0) / 2));
    setOutTensor(1, x.slice(x.dim(0) / 2, x.dim(0)));
  }
};
popart::popx::OpxCreator<HalvesOpx> halvesOpxCreator(CustomOperators::Halves);

class HalvesGradOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    setOutTensor(0, cloneNcopy(program, poplar::concat(getInTensor(0), getInTensor(1))));
  }
};
popart::popx::OpxCreator<HalvesGradOpx> halvesGradOpxCreator(CustomGradOperators::HalvesGrad);

// --- An op that changes its input and says nothing of it ---

template <typename Derived>
class SameShapeOp : public Op {
 public:
  using Op::Op;
  std::unique_ptr<Op> clone() const final {
    return std::unique_ptr<Op>(new Derived(static_cast<const Derived &>(*this)));
  }
  void setup() final { outInfo(0) = inInfo(0); }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
};

struct NegateOp : SameShapeOp<NegateOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<NegateOp> negateCreator({{CustomOperators::Negate, {}}});

class NegateOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    loadCodelets(graph());
    const poplar::ComputeSet set = graph().addComputeSet();
    const Tensor x = getInTensor(0).flatten();
    for (std::size_t i = 0; i < x.numElements(); ++i) {
      graph().setTileMapping(graph().addVertex(set, "NegateVertex", {{"x", x[i]}}), 0);
    }
    program.add(Execute(set));
    setOutTensor(0, getInTensor(0));
  }
};
popart::popx::OpxCreator<NegateOpx> negateOpxCreator({CustomOperators::Negate,
                                                      CustomOperators::NegateWeight});

struct NegateWeightOp : SameShapeOp<NegateWeightOp> {
  using SameShapeOp::SameShapeOp;
  popart::view::Regions modifies(popart::InIndex index) const final {
    return {popart::view::Region::getFull(inShape(index))};
  }
};
popart::OpCreator<NegateWeightOp> negateWeightCreator({{CustomOperators::NegateWeight, {}}});

// --- Small integers ---

struct NegateCodesOp : SameShapeOp<NegateCodesOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<NegateCodesOp> negateCodesCreator({{CustomOperators::NegateCodes, {}}});

class NegateCodesOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    loadCodelets(graph());
    const Tensor out = graph().clone(getInTensor(0));
    const poplar::ComputeSet set = graph().addComputeSet();
    graph().setTileMapping(
        graph().addVertex(set, "NegateCodesVertex",
                          {{"x", getInTensor(0).flatten()}, {"out", out.flatten()}}),
        0);
    program.add(Execute(set));
    setOutTensor(0, out);
  }
};
popart::popx::OpxCreator<NegateCodesOpx> negateCodesOpxCreator(CustomOperators::NegateCodes);

// --- The number of replicas ---

struct ReplicasOp : SameShapeOp<ReplicasOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<ReplicasOp> replicasCreator({{CustomOperators::Replicas, {}}});

class ReplicasOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &) const final {
    const int64_t count = op_p->getIr().getSessionOptions().getGlobalReplicationFactor();
    setOutTensor(0,
                 getConst(poplar::FLOAT, outInfo(0).shape_szt(), static_cast<double>(count), ""));
  }
};
popart::popx::OpxCreator<ReplicasOpx> replicasOpxCreator(CustomOperators::Replicas);

// --- The tensor of the replica before ---

struct RotateOp : SameShapeOp<RotateOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<RotateOp> rotateCreator({{CustomOperators::Rotate, {}}});

class RotateOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    const Tensor out = graph().clone(getInTensor(0), debugContext("rotated"));
    const unsigned replicas = graph().getReplicationFactor();
    std::map<unsigned, unsigned> targets;
    for (unsigned r = 0; r < replicas; ++r) targets[r] = (r + 1) % replicas;
    program.add(poplar::program::CrossReplicaCopy(getInTensor(0), out, targets));
    setOutTensor(0, out);
  }
};
popart::popx::OpxCreator<RotateOpx> rotateOpxCreator(CustomOperators::Rotate);

// --- Ops with mistakes ---

struct NoLoweringOp : SameShapeOp<NoLoweringOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<NoLoweringOp> noLoweringCreator({{CustomOperators::NoLowering, {}}});

struct NoGradientOp : SameShapeOp<NoGradientOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<NoGradientOp> noGradientCreator({{CustomOperators::NoGradient, {}}});

class CopyOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final { setOutTensor(0, cloneNcopy(program, inId(0))); }
};
popart::popx::OpxCreator<CopyOpx> noGradientOpxCreator(CustomOperators::NoGradient);

class FailsOp : public Op {
 public:
  FailsOp(const popart::OperatorIdentifier &opid, std::string how, const Op::Settings &settings)
      : Op(opid, settings), how(std::move(how)) {}
  std::unique_ptr<Op> clone() const final { return std::unique_ptr<Op>(new FailsOp(*this)); }
  void setup() final {
    if (how == "setup") throw popart::error("setup of {} refuses {}", opid, inInfo(0));
    if (how == "missing") return;
    outInfo(0) = how == "negative" ? popart::TensorInfo("FLOAT", Shape{-1}) : inInfo(0);
  }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
  std::string how;
};
popart::OpCreator<FailsOp> failsCreator(
    {{CustomOperators::Fails, {}}}, [](const popart::OpCreatorInfo &info) {
      return std::unique_ptr<FailsOp>(
          new FailsOp(info.opid, info.attributes.getAttribute<std::string>("how"), info.settings));
    });

class FailsOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    const std::string &how = getOp<FailsOp>().how;
    const Tensor x = getInTensor(0);
    if (how == "error") throw popart::error("grow gave up after {} elements", x.numElements());
    if (how == "poplar") throw poplar::poplar_error("poplar gave up");
    if (how == "std") throw std::runtime_error("the library gave up");
    if (how == "abort") {
      program.add(poplar::program::Abort(std::string("the operation stopped")));
      setOutTensor(0, x);
    }
    if (how == "unmapped") {
      const Tensor out = graph().addVariable(poplar::FLOAT, x.shape());
      program.add(poplar::program::Copy(x, out));
      setOutTensor(0, out);
    }
    if (how == "shape") setOutTensor(0, x.flatten().slice(0, 1));
    if (how == "type") setOutTensor(0, getConst(poplar::INT, outInfo(0).shape_szt(), 0, ""));
    if (how == "twice") setOutTensor(0, x), setOutTensor(0, x);
  }
};
popart::popx::OpxCreator<FailsOpx> failsOpxCreator(CustomOperators::Fails);

// --- Twice its input, which it keeps ---

struct TwiceOp : SameShapeOp<TwiceOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<TwiceOp> twiceCreator({{CustomOperators::Twice, {}}});

class TwiceOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    Tensor a = getInTensor(0), b = a;
    setOutTensor(
        0, mapMaybeInPlace(popops::expr::BinaryOpType::ADD, a, b, program, debugContext("twice")));
  }
};
popart::popx::OpxCreator<TwiceOpx> twiceOpxCreator(CustomOperators::Twice);

// --- An op that draws: the seed comes from the session ---

struct DrawOp : SameShapeOp<DrawOp> {
  using SameShapeOp::SameShapeOp;
  bool requiresRandomSeed() const final { return true; }
  popart::InIndex getSeedInIndex() const final { return 1; }
};
popart::OpCreator<DrawOp> drawCreator({{CustomOperators::Draw, {}}});

class DrawOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  void grow(Sequence &program) const final {
    loadCodelets(graph());
    const Tensor seed = getInTensor(getOp<DrawOp>().getSeedInIndex());
    const Tensor out = graph().clone(getInTensor(0));
    const poplar::ComputeSet set = graph().addComputeSet();
    for (std::size_t i = 0; i < out.numElements(); ++i) {
      const poplar::VertexRef vertex =
          graph().addVertex(set, "DrawVertex", {{"seed", seed[i % 2]}, {"out", out.flatten()[i]}});
      graph().setTileMapping(vertex, 0);
    }
    program.add(Execute(set));
    setOutTensor(0, out);
  }
};
popart::popx::OpxCreator<DrawOpx> drawOpxCreator(CustomOperators::Draw);

// --- An op that makes its input: the result is the tile of each element ---

struct PlacedOp : SameShapeOp<PlacedOp> {
  using SameShapeOp::SameShapeOp;
};
popart::OpCreator<PlacedOp> placedCreator({{CustomOperators::Placed, {}}});

class PlacedOpx : public popart::popx::Opx {
 public:
  using Opx::Opx;
  popart::popx::InputCreatorType getInputCreatorType(popart::InIndex) const final {
    return popart::popx::InputCreatorType::CanCreate;
  }
  std::set<popart::TensorId> mustExistBeforeCreate(popart::InIndex) const final { return {}; }
  Tensor createInput(popart::InIndex index, const poplar::DebugNameAndId &name) const final {
    const Tensor made = graph().addVariable(popart::popx::popType(inInfo(index)),
                                            inInfo(index).shape_szt(), {name});
    graph().setTileMapping(made, 7);
    return made;
  }
  void grow(Sequence &) const final {
    const auto mapping = graph().getTileMapping(getInTensor(0));
    double tile = 0;
    while (mapping.at(static_cast<std::size_t>(tile)).empty()) ++tile;
    setOutTensor(0, getConst(poplar::FLOAT, outInfo(0).shape_szt(), tile, "tile"));
  }
};
popart::popx::OpxCreator<PlacedOpx> placedOpxCreator(CustomOperators::Placed);

// --- Patterns, which are off until a test switches them on ---

class TestPattern : public popart::PreAliasPattern {
 public:
  std::vector<const popart::Tensor *> touches(Op *op) const override { return {op->inTensor(0)}; }
};

// Relu becomes an op of the library, which is made without attributes.
class ReluToLeaky : public TestPattern {
 public:
  bool matches(Op *op) const final { return op->isConvertibleTo<popart::ReluOp>(); }
  bool apply(Op *op) const final {
    const popart::TensorId in = op->inId(0), out = op->outId(0);
    popart::Graph &graph = op->getGraph();
    const Op::Settings settings = op->settings;
    op->disconnectAllInputs();
    op->disconnectAllOutputs();
    graph.eraseOp(op->id);
    graph.createConnectedOp<LeakyOp>({{0, in}}, {{0, out}}, CustomOperators::Leaky, 0.5f, settings);
    return true;
  }
};
popart::PatternCreator<ReluToLeaky> reluToLeaky("ReluToLeaky", false);

// An op of the library becomes Neg, which gets in its place.
class LeakyToNegate : public TestPattern {
 public:
  bool matches(Op *op) const final { return op->opid == CustomOperators::Leaky; }
  bool apply(Op *op) const final {
    Op *negate = makeReplacementOpInIr(popart::Onnx::Operators::Neg_6, op, "negate");
    const popart::TensorId in = op->inId(0), out = op->outId(0);
    op->disconnectAllInputs();
    op->disconnectAllOutputs();
    op->getGraph().eraseOp(op->id);
    negate->connectInTensor(0, in);
    negate->connectOutTensor(0, out);
    negate->setup();
    return true;
  }
};
popart::PatternCreator<LeakyToNegate> leakyToNegate("LeakyToNegate", false);

// Two negations undo each other: what takes the second takes the input of the first.
class DropNegations : public popart::PreAliasPattern {
 public:
  bool matches(Op *op) const final {
    return op->isConvertibleTo<popart::NegateOp>() && op->inTensor(0)->hasProducer() &&
           op->inTensor(0)->getProducer()->isConvertibleTo<popart::NegateOp>();
  }
  std::vector<const popart::Tensor *> touches(Op *op) const final { return {op->outTensor(0)}; }
  bool apply(Op *op) const final {
    popart::Tensor *first = op->inTensor(0)->getProducer()->inTensor(0);
    popart::Tensor *second = op->outTensor(0);
    bool changed = false;
    for (Op *consumer : second->consumers.getOps()) {
      for (int index : std::vector<int>(consumer->input->indices(second))) {
        consumer->disconnectInTensor(index, second);
        consumer->connectInTensor(index, first->id);
        changed = true;
      }
      consumer->setup();
    }
    return changed;
  }
};
popart::PatternCreator<DropNegations> dropNegations("DropNegations", false);

// An attribute of an op changes in place.
class DoubleAlpha : public TestPattern {
 public:
  bool matches(Op *op) const final {
    const LeakyOp *leaky = dynamic_cast<const LeakyOp *>(op);
    return leaky != nullptr && leaky->alpha == 0.125f;
  }
  bool apply(Op *op) const final {
    static_cast<LeakyOp *>(op)->alpha = 0.25f;
    return true;
  }
};
popart::PatternCreator<DoubleAlpha> doubleAlpha("DoubleAlpha", false);

// Identity becomes an addition of a new constant.
class IdentityToAdd : public TestPattern {
 public:
  bool matches(Op *op) const final { return op->isConvertibleTo<popart::IdentityOp>(); }
  bool apply(Op *op) const final {
    const popart::TensorId in = op->inId(0), out = op->outId(0);
    popart::Graph &graph = op->getGraph();
    const std::vector<float> value = {10.0f};
    const popart::TensorId ten = graph.getIr().createIntermediateTensorId("ten");
    graph.addConstInit(ten, {popart::DataType::FLOAT, {1}}, value.data(), {"ten"});
    const Op::Settings settings = op->settings;
    op->disconnectAllInputs();
    op->disconnectAllOutputs();
    graph.eraseOp(op->id);
    graph.createConnectedOp<popart::AddOp>({{0, in}, {1, ten}}, {{0, out}},
                                           popart::Onnx::Operators::Add_7, settings);
    return true;
  }
};
popart::PatternCreator<IdentityToAdd> identityToAdd("IdentityToAdd", false);

class Endless : public TestPattern {
 public:
  bool matches(Op *) const final { return true; }
  bool apply(Op *) const final { return true; }
};
popart::PatternCreator<Endless> endless("Endless", false);

class Throws : public TestPattern {
 public:
  bool matches(Op *op) const final { throw popart::error("no pattern for {}", op->opid.type); }
  bool apply(Op *) const final { return false; }
};
popart::PatternCreator<Throws> throws("Throws", false);

// --- A transform: each Relu becomes Neg ---

class ReluToNegate : public popart::Transform {
 public:
  bool apply(popart::Graph &graph) const final {
    for (const popart::OpId id : graph.getOpIds()) {
      Op *op = graph.getOp(id);
      if (!op->isConvertibleTo<popart::ReluOp>()) continue;
      const popart::TensorId in = op->inId(0), out = op->outId(0);
      std::unique_ptr<Op> made(new popart::NegateOp(popart::Onnx::Operators::Neg_6, op->settings));
      Op *negate = made.get();
      graph.moveIntoGraph(std::move(made));
      op->disconnectAllInputs();
      op->disconnectAllOutputs();
      graph.eraseOp(id);
      negate->connectInTensor(0, in);
      negate->connectOutTensor(0, out);
      negate->setup();
    }
    return true;
  }
  std::size_t getId() const final { return typeid(ReluToNegate).hash_code(); }
  std::string getName() const final { return "ReluToNegate"; }
};
const bool transformIsRegistered = popart::Transform::registerTransform(new ReluToNegate);

}  // namespace
