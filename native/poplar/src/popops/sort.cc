#include "popops/Sort.hpp"

#include "poplar/core/LibraryOp.hpp"
#include "popops/TopK.hpp"
#include "popops/ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;

std::ostream& operator<<(std::ostream& os, const SortOrder& order) {
  constexpr const char* kNames[] = {"none", "ascending", "descending"};
  return os << kNames[static_cast<int>(order)];
}

std::ostream& operator<<(std::ostream& os, const TopKParams& params) {
  return os << "TopKParams(k=" << params.k << ", " << (params.largest ? "largest" : "smallest")
            << ", " << params.sortOrder << (params.stableSort ? ", stable)" : ")");
}

namespace {

// The first k of the rows of the last dimension. Keys come first; values and indices follow.
void AddSelect(Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               bool largest, bool ascending, bool indices, Sequence& prog, const Call& call) {
  for (const Tensor& output : outputs) call.RequireWriteable("the tensor", output);
  const std::string text = ParameterWriter().Add(largest).Add(ascending).Add(indices).text();
  prog.add(poplar::core::libraryOp(graph, "popops::topK", text, inputs, outputs, call.context(),
                                   poplar::core::KernelAliasing::SameTensor));
}

void CheckKeys(const Tensor& keys, const Call& call) {
  call.Require(keys.elementType() != poplar::BOOL, "elements of bool have no order.");
}

void CheckSort(const Tensor& keys, unsigned dim, const Call& call) {
  CheckKeys(keys, call);
  call.Require(dim < keys.rank(), "dimension " + std::to_string(dim) + " does not exist in shape " +
                                      TextOf(keys.shape()) + ".");
}

Tensor LastDimension(const Tensor& t, unsigned dim) { return t.dimRoll(dim, t.rank() - 1); }

Tensor NewLike(Graph& graph, const Tensor& t, const DebugContext& context) {
  return graph.clone(t, context, poplar::TensorCloneMethod::CREATE_NEW_ORDER);
}

// Sorts into outputs, which may be the inputs.
void Sort(Graph& graph, const std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
          unsigned dim, Sequence& prog, const Call& call) {
  std::vector<Tensor> rows;
  for (const Tensor& input : inputs) rows.push_back(LastDimension(input, dim));
  for (Tensor& output : outputs) output = LastDimension(output, dim);
  AddSelect(graph, rows, outputs, false, true, false, prog, call);
}

}  // namespace

Tensor sort(Graph& graph, const Tensor& t, unsigned dim, Sequence& prog,
            const DebugContext& debugContext) {
  const Call call("popops::sort", debugContext);
  CheckSort(t, dim, call);
  const Tensor result = NewLike(graph, t, debugContext);
  Sort(graph, {t}, {result}, dim, prog, call);
  return result;
}

void sortInPlace(Graph& graph, const Tensor& t, unsigned dim, Sequence& prog,
                 const DebugContext& debugContext) {
  const Call call("popops::sortInPlace", debugContext);
  CheckSort(t, dim, call);
  Sort(graph, {t}, {t}, dim, prog, call);
}

Tensor sortKeyValue(Graph& graph, const Tensor& k, const Tensor& v, unsigned dim, Sequence& prog,
                    const DebugContext& debugContext) {
  const Call call("popops::sortKeyValue", debugContext);
  CheckSort(k, dim, call);
  call.RequireShape("the values", v, k.shape());
  const Tensor result = NewLike(graph, v, debugContext);
  Sort(graph, {k, v}, {NewLike(graph, k, debugContext), result}, dim, prog, call);
  return result;
}

void sortKeyValueInPlace(Graph& graph, const Tensor& k, const Tensor& v, unsigned dim,
                         Sequence& prog, const DebugContext& debugContext) {
  const Call call("popops::sortKeyValueInPlace", debugContext);
  CheckSort(k, dim, call);
  call.RequireShape("the values", v, k.shape());
  Sort(graph, {k, v}, {k, v}, dim, prog, call);
}

Tensor createTopKInput(Graph& graph, const poplar::Type& type, const std::vector<size_t>& shape,
                       const TopKParams&, const DebugContext& debugContext) {
  return NewLinear(graph, type, shape, debugContext);
}

namespace {

// Results for tensors of rows, with k elements of each row.
std::vector<Tensor> TopK(Graph& graph, const std::vector<Tensor>& inputs, bool indices,
                         const TopKParams& params, Sequence& prog, const Call& call) {
  const Tensor& keys = inputs[0];
  CheckKeys(keys, call);
  call.Require(keys.rank() > 0, "the tensor has no dimension.");
  std::vector<size_t> shape = keys.shape();
  if (params.k > shape.back()) {
    call.Fail("k is " + std::to_string(params.k) + ", and the last dimension has " +
              std::to_string(shape.back()) + " elements.");
  }
  shape.back() = params.k;
  std::vector<Tensor> outputs;
  for (const Tensor& input : inputs) {
    call.RequireShape("the values", input, keys.shape());
    outputs.push_back(NewLinear(graph, input.elementType(), shape, call.context()));
  }
  if (indices) outputs.push_back(NewLinear(graph, poplar::UNSIGNED_INT, shape, call.context()));
  const bool ascending = params.sortOrder == SortOrder::NONE
                             ? !params.largest
                             : params.sortOrder == SortOrder::ASCENDING;
  AddSelect(graph, inputs, outputs, params.largest, ascending, indices, prog, call);
  return outputs;
}

}  // namespace

Tensor topK(Graph& graph, Sequence& prog, const Tensor& t, const TopKParams& params,
            const DebugContext& debugContext) {
  return TopK(graph, {t}, false, params, prog, Call("popops::topK", debugContext))[0];
}

std::pair<Tensor, Tensor> topKKeyValue(Graph& graph, Sequence& prog, const Tensor& keys,
                                       const Tensor& values, const TopKParams& params,
                                       const DebugContext& debugContext) {
  const Call call("popops::topKKeyValue", debugContext);
  const std::vector<Tensor> results = TopK(graph, {keys, values}, false, params, prog, call);
  return {results[0], results[1]};
}

std::pair<Tensor, Tensor> topKWithPermutation(Graph& graph, Sequence& prog, const Tensor& t,
                                              const TopKParams& params,
                                              const DebugContext& debugContext) {
  const Call call("popops::topKWithPermutation", debugContext);
  const std::vector<Tensor> results = TopK(graph, {t}, true, params, prog, call);
  return {results[0], results[1]};
}

}  // namespace popops
