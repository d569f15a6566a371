// Steps that evaluate expressions.
#include "popops/ElementWise.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "poplar/access.h"
#include "poplar/core/LibraryOp.hpp"
#include "poplar/view.h"
#include "popops/ElementWiseUtil.hpp"
#include "popops/codelets.hpp"
#include "popops/typed_expression.h"
#include "poputil/TileMapping.hpp"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;

void addCodelets(Graph&) {}

namespace {

void CheckMapOptions(const Call& call, const OptionFlags& options) {
  call.CheckOptions(options, {"enableGenerateCodelet", "enableVectorBroadcastOptimisations",
                              "forceGenerateCodelet", "enableExpressionOptimizations"});
}

// Extends `shape` to the shape that NumPy broadcasts it and `other` to.
bool Broadcast(const std::vector<size_t>& other, std::vector<size_t>* shape) {
  if (other.size() > shape->size()) shape->insert(shape->begin(), other.size() - shape->size(), 1);
  const size_t missing = shape->size() - other.size();
  for (size_t d = 0; d < other.size(); ++d) {
    size_t& size = (*shape)[missing + d];
    if (size != other[d] && size != 1 && other[d] != 1) return false;
    if (size == 1) size = other[d];
  }
  return true;
}

std::vector<size_t> BroadcastShape(const std::vector<Tensor>& tensors, const Call& call) {
  std::vector<size_t> shape;
  for (const Tensor& tensor : tensors) {
    const std::vector<size_t> before = shape;
    if (!Broadcast(tensor.shape(), &shape)) {
      call.Fail("the shapes " + TextOf(before) + " and " + TextOf(tensor.shape()) +
                " cannot be broadcast to one.");
    }
  }
  return shape;
}

// The tensor without the repetitions of `Tensor::broadcast`: the kernel broadcasts it again.
Tensor Unbroadcast(Tensor tensor) {
  const poplar::core::View& view = *poplar::core::Access::View(tensor);
  if (view.runs != nullptr) return tensor;
  const std::vector<int64_t> strides = view.strided.strides;
  for (unsigned d = 0; d < strides.size(); ++d) {
    if (strides[d] == 0 && tensor.dim(d) > 1) tensor = tensor.slice(0, 1, d);
  }
  return tensor;
}

// The dimensions of a view in the order of memory, from the outermost on, if they are those of a
// contiguous tensor in another order. Else nothing.
std::vector<unsigned> MemoryOrder(const Tensor& tensor) {
  const poplar::core::View& view = *poplar::core::Access::View(tensor);
  if (view.runs != nullptr) return {};
  const std::vector<int64_t>& strides = view.strided.strides;
  std::vector<unsigned> order(strides.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](unsigned a, unsigned b) { return strides[a] > strides[b]; });
  if (std::is_sorted(order.begin(), order.end())) return {};
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t size = view.shape[order[i]];
    if (size != 1 && strides[order[i]] != expected) return {};
    expected *= static_cast<int64_t>(size);
  }
  return order;
}

// Dimensions in an order; those that the tensor lacks have one element.
Tensor InOrder(const Tensor& tensor, const std::vector<unsigned>& order) {
  if (order.empty()) return tensor;
  const std::vector<size_t> missing(order.size() - tensor.rank(), 0);
  return tensor.expand(missing).dimShuffle(order);
}

std::vector<unsigned> Inverse(const std::vector<unsigned>& order) {
  std::vector<unsigned> inverse(order.size());
  for (unsigned d = 0; d < order.size(); ++d) inverse[order[d]] = d;
  return inverse;
}

std::vector<Tensor> UsedTensors(const TypedExpression& typed, const std::vector<Tensor>& ts) {
  std::vector<Tensor> used;
  for (const unsigned index : typed.used) used.push_back(ts[index]);
  return used;
}

void AddMap(Graph& graph, const TypedExpression& typed, const std::vector<Tensor>& ts,
            const Tensor& out, Sequence& prog, const DebugContext& context) {
  if (out.numElements() == 0) return;
  // In the order of memory of the output, it needs no copy.
  const std::vector<unsigned> order = MemoryOrder(out);
  std::vector<Tensor> inputs = UsedTensors(typed, ts);
  for (Tensor& input : inputs) input = Unbroadcast(InOrder(input, order));
  const Tensor target = InOrder(out, order);
  prog.add(poplar::core::libraryOp(graph, "popops::map", typed.text, inputs, {target}, context,
                                   poplar::core::KernelAliasing::SameTensor));
}

size_t NumTiles(const Graph& graph, const Tensor& tensor) {
  const auto mapping = graph.getTileMapping(tensor);
  return std::count_if(mapping.begin(), mapping.end(), [](const auto& m) { return !m.empty(); });
}

}  // namespace

Tensor createOutputForElementWiseOp(Graph& graph, const std::vector<Tensor>& inputs,
                                    const Type& outputType, const DebugContext& debugContext) {
  const Call call("popops::createOutputForElementWiseOp", debugContext);
  call.Require(!inputs.empty(), "there are no inputs.");
  const std::vector<size_t> shape = BroadcastShape(inputs, call);
  std::vector<Tensor> candidates;
  for (const Tensor& input : inputs) {
    if (input.shape() == shape && (input.isContiguous() || !input.containsAliases())) {
      candidates.push_back(input);
    }
  }
  if (candidates.empty()) {
    const Tensor result = graph.addVariable(outputType, shape, debugContext);
    poputil::mapTensorLinearly(graph, result);
    return result;
  }
  const Tensor* best = &candidates[0];
  size_t most = candidates.size() > 1 ? NumTiles(graph, *best) : 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    const size_t tiles = NumTiles(graph, candidates[i]);
    if (tiles <= most) continue;
    most = tiles;
    best = &candidates[i];
  }
  const std::vector<unsigned> order = MemoryOrder(*best);
  const Tensor result = graph.clone(outputType, InOrder(*best, order), debugContext,
                                    poplar::TensorCloneMethod::CREATE_NEW_ORDER);
  return order.empty() ? result : result.dimShuffle(Inverse(order));
}

namespace core {

Tensor elementWise(Graph& graph, const expr::Expr& expression, const std::vector<Tensor>& ts,
                   Sequence& prog, const DebugContext& debugContext, const OptionFlags& options,
                   const char* function) {
  const Call call(function, debugContext);
  CheckMapOptions(call, options);
  const TypedExpression typed = TypesOf(expression, ts, nullptr, call);
  const std::vector<Tensor> shaping = typed.used.empty() ? ts : UsedTensors(typed, ts);
  BroadcastShape(shaping, call);
  const DebugContext name(debugContext, "Out", debugContext.location());
  const Tensor out = createOutputForElementWiseOp(graph, shaping, typed.type, name);
  AddMap(graph, typed, ts, out, prog, debugContext);
  return out;
}

void elementWiseInto(Graph& graph, const expr::Expr& expression, const std::vector<Tensor>& ts,
                     const Tensor& out, Sequence& prog, const DebugContext& debugContext,
                     const OptionFlags& options, const char* function) {
  const Call call(function, debugContext);
  CheckMapOptions(call, options);
  const Type type = out.elementType();
  const TypedExpression typed = TypesOf(expression, ts, &type, call);
  if (typed.type != type) {
    call.Fail("the result is of " + TextOf(typed.type) + ", the output of " + TextOf(type) + ".");
  }
  for (const unsigned index : typed.used) {
    std::vector<size_t> shape = out.shape();
    if (Broadcast(ts[index].shape(), &shape) && shape == out.shape()) continue;
    call.Fail("the shape " + TextOf(ts[index].shape()) +
              " cannot be broadcast to that of the output, " + TextOf(out.shape()) + ".");
  }
  call.RequireWriteable("the output", out);
  AddMap(graph, typed, ts, out, prog, debugContext);
}

}  // namespace core

void mapInPlace(Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts, Sequence& prog,
                const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::mapInPlace", debugContext);
  call.Require(!ts.empty(), "there are no tensors.");
  core::elementWiseInto(graph, expr, ts, ts[0], prog, debugContext, options, "popops::mapInPlace");
}

std::vector<Tensor> map(Graph& graph, const std::vector<expr::Any>& exprs,
                        const std::vector<Tensor>& ts, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags& options) {
  std::vector<Tensor> results;
  for (const expr::Any& expr : exprs) {
    results.push_back(
        map(graph, static_cast<const expr::Expr&>(expr), ts, prog, debugContext, options));
  }
  return results;
}

void outputGeneratedCodelet(const poplar::Target&, const expr::Expr& expr,
                            const std::vector<Tensor>& ts, const OptionFlags& options,
                            std::ostream& os) {
  const Call call("popops::outputGeneratedCodelet", DebugContext());
  CheckMapOptions(call, options);
  const TypedExpression typed = TypesOf(expr, ts, nullptr, call);
  os << "// " << expr.name(ts) << ": " << TextOf(typed.type) << "\n";
  expr.print(os);
}

namespace {

// `op` of a tensor in the type of epsilon, and its result in `type`.
Tensor Converted(Graph& graph, expr::BinaryOpType op, const Tensor& src, const expr::Expr& epsilon,
                 const std::vector<Tensor>& ts, Sequence& prog, const Type& type,
                 const DebugContext& context, const OptionFlags& options, const char* function) {
  const bool narrow = src.elementType() == poplar::HALF && type == poplar::FLOAT;
  const Type computed = narrow ? poplar::FLOAT : src.elementType();
  const expr::Cast value(expr::_1, computed), added(epsilon, computed);
  return core::elementWise(graph, expr::Cast(expr::BinaryOp(op, value, added), type), ts, prog,
                           context, options, function);
}

}  // namespace

Tensor varianceToInvStdDev(Graph& graph, const Tensor& src, const Tensor& epsilon, Sequence& prog,
                           const Type dstType, const DebugContext& debugContext,
                           const OptionFlags& options) {
  return Converted(graph, expr::BinaryOpType::VARIANCE_TO_INV_STD_DEV, src, expr::_2,
                   {src, epsilon}, prog, dstType, debugContext, options,
                   "popops::varianceToInvStdDev");
}

Tensor varianceToInvStdDev(Graph& graph, const Tensor& src, const float epsilon, Sequence& prog,
                           const Type dstType, const DebugContext& debugContext,
                           const OptionFlags& options) {
  return Converted(graph, expr::BinaryOpType::VARIANCE_TO_INV_STD_DEV, src, expr::Const(epsilon),
                   {src}, prog, dstType, debugContext, options, "popops::varianceToInvStdDev");
}

Tensor invStdDevToVariance(Graph& graph, const Tensor& src, const Tensor& epsilon, Sequence& prog,
                           const Type dstType, const DebugContext& debugContext,
                           const OptionFlags& options) {
  return Converted(graph, expr::BinaryOpType::INV_STD_DEV_TO_VARIANCE, src, expr::_2,
                   {src, epsilon}, prog, dstType, debugContext, options,
                   "popops::invStdDevToVariance");
}

Tensor invStdDevToVariance(Graph& graph, const Tensor& src, const float epsilon, Sequence& prog,
                           const Type dstType, const DebugContext& debugContext,
                           const OptionFlags& options) {
  return Converted(graph, expr::BinaryOpType::INV_STD_DEV_TO_VARIANCE, src, expr::Const(epsilon),
                   {src}, prog, dstType, debugContext, options, "popops::invStdDevToVariance");
}

}  // namespace popops
