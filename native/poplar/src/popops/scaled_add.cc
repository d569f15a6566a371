#include "popops/ScaledAdd.hpp"

#include "popops/ElementWise.hpp"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Call;

namespace {

// A scale: a number, or a scalar tensor.
struct Scale {
  Scale(float number) : number(number) {}
  Scale(Tensor tensor) : tensor(std::move(tensor)) {}

  float number = 0;
  Tensor tensor;
};

// A = scaleA * A + sign * scaleB * B; A is not scaled without scaleA.
class ScaledSum {
 public:
  ScaledSum(const char* function, Graph& graph, const Tensor& a, const Tensor& b,
            const DebugContext& context, const OptionFlags& options)
      : function_(function), call_(function, context), graph_(graph), a_(a), b_(b) {
    call_.CheckOptions(options, {"optimizeForSpeed", "scaleFloatToHalfTolerance"});
    call_.RequireShape("B", b, a.shape());
    if (a.elementType().isFloatingPoint() != b.elementType().isFloatingPoint()) {
      call_.Fail("A is of " + poputil::TextOf(a.elementType()) + ", B of " +
                 poputil::TextOf(b.elementType()) + ".");
    }
    type_ = a.elementType().isFloatingPoint() ? poplar::FLOAT : a.elementType();
    tensors_ = {a, b};
  }

  void Add(const Scale* scale_a, const Scale& scale_b, bool subtracts,
           ScaledAddSpecialisation speciality, Sequence& prog) {
    using namespace expr;
    const Any b = Cast(_2, type_) * ScaleNode(scale_b);
    Any a = Cast(_1, type_);
    if (scale_a != nullptr) {
      const Any scaled = a * ScaleNode(*scale_a);
      a = speciality == ScaledAddSpecialisation::X_MINUS_AX_PLUS_BY ? Any(a - scaled) : scaled;
    }
    const Any sum = subtracts ? Any(a - b) : Any(a + b);
    core::elementWiseInto(graph_, Cast(sum, a_.elementType()), tensors_, a_, prog, call_.context(),
                          {}, function_);
  }

 private:
  expr::Any ScaleNode(const Scale& scale) {
    if (!scale.tensor.valid()) return expr::Const(scale.number);
    call_.Require(scale.tensor.numElements() == 1,
                  "a scale has to be one element, not " + scale.tensor.shapeToString() + ".");
    tensors_.push_back(scale.tensor.reshape({}));
    return expr::Cast(expr::PlaceHolder(static_cast<unsigned>(tensors_.size())), type_);
  }

  const char* function_;
  Call call_;
  Graph& graph_;
  Tensor a_, b_;
  Type type_;
  std::vector<Tensor> tensors_;
};

constexpr auto kDefault = ScaledAddSpecialisation::DEFAULT;

void Sum(const char* function, Graph& graph, const Tensor& a, const Scale* scale_a, const Tensor& b,
         const Scale& scale_b, bool subtracts, ScaledAddSpecialisation speciality, Sequence& prog,
         const DebugContext& context, const OptionFlags& options) {
  ScaledSum(function, graph, a, b, context, options)
      .Add(scale_a, scale_b, subtracts, speciality, prog);
}

constexpr const char* kAdd = "popops::scaledAddTo";
constexpr const char* kSubtract = "popops::scaledSubtractFrom";

}  // namespace

void scaledAddTo(Graph& graph, Tensor A, Tensor B, float scaleB, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags& options) {
  Sum(kAdd, graph, A, nullptr, B, scaleB, false, kDefault, prog, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, Tensor B, Tensor scaleB, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags& options) {
  Sum(kAdd, graph, A, nullptr, B, scaleB, false, kDefault, prog, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, Tensor scaleA, Tensor B, Tensor scaleB, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags& options) {
  scaledAddTo(graph, A, scaleA, B, scaleB, prog, kDefault, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, Tensor scaleA, Tensor B, Tensor scaleB, Sequence& prog,
                 const ScaledAddSpecialisation speciality, const DebugContext& debugContext,
                 const OptionFlags& options) {
  const Scale a(scaleA);
  Sum(kAdd, graph, A, &a, B, scaleB, false, speciality, prog, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, float scaleA, Tensor B, float scaleB, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags& options) {
  scaledAddTo(graph, A, scaleA, B, scaleB, prog, kDefault, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, float scaleA, Tensor B, float scaleB, Sequence& prog,
                 const ScaledAddSpecialisation speciality, const DebugContext& debugContext,
                 const OptionFlags& options) {
  const Scale a(scaleA);
  Sum(kAdd, graph, A, &a, B, scaleB, false, speciality, prog, debugContext, options);
}

void scaledSubtractFrom(Graph& graph, Tensor A, Tensor B, float scaleB, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags& options) {
  Sum(kSubtract, graph, A, nullptr, B, scaleB, true, kDefault, prog, debugContext, options);
}

void scaledSubtractFrom(Graph& graph, Tensor A, Tensor B, Tensor scaleB, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags& options) {
  Sum(kSubtract, graph, A, nullptr, B, scaleB, true, kDefault, prog, debugContext, options);
}

void scaledSubtractFrom(Graph& graph, Tensor A, Tensor scaleA, Tensor B, Tensor scaleB,
                        Sequence& prog, const DebugContext& debugContext,
                        const OptionFlags& options) {
  const Scale a(scaleA);
  Sum(kSubtract, graph, A, &a, B, scaleB, true, kDefault, prog, debugContext, options);
}

void scaledSubtractFrom(Graph& graph, Tensor A, float scaleA, Tensor B, float scaleB,
                        Sequence& prog, const DebugContext& debugContext,
                        const OptionFlags& options) {
  const Scale a(scaleA);
  Sum(kSubtract, graph, A, &a, B, scaleB, true, kDefault, prog, debugContext, options);
}

}  // namespace popops
