#include "popops/Gather.hpp"

#include <algorithm>

#include "poplar/core/LibraryOp.hpp"
#include "popops/DynamicSlice.hpp"
#include "popops/Loop.hpp"
#include "popops/Scatter.hpp"
#include "popops/window_ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;
using Sizes = std::vector<size_t>;

namespace {

constexpr std::initializer_list<const char*> kOptions = {
    "availableMemoryProportion", "indicesAreSorted", "validateIndices", "remapOutOfBoundIndices",
    "paddingIndexUsed"};

template <typename T>
bool Has(const std::vector<T>& values, size_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void CheckIndices(const Tensor& indices, size_t indexVectorDim, size_t numDims, const Call& call) {
  const poplar::Type type = indices.elementType();
  call.Require(type == poplar::UNSIGNED_INT || type == poplar::INT,
               "indices have to be of unsigned int or int, not of " + TextOf(type) + ".");
  call.Require(indexVectorDim <= indices.rank(),
               "indexVectorDim " + std::to_string(indexVectorDim) + " is beyond the shape " +
                   TextOf(indices.shape()) + " of the indices.");
  const size_t length =
      indexVectorDim == indices.rank() ? 1 : indices.dim(static_cast<unsigned>(indexVectorDim));
  call.Require(length == numDims, "index vectors have " + std::to_string(length) +
                                      " elements for " + std::to_string(numDims) + " dimensions.");
}

// Indices with the vectors in the last dimension.
Tensor WithVectorsLast(const Tensor& indices, size_t indexVectorDim) {
  if (indexVectorDim == indices.rank()) return indices.expand({indices.rank()});
  return indices.dimRoll(static_cast<unsigned>(indexVectorDim), indices.rank() - 1);
}

// Window dimensions of the operand: those that are not collapsed.
Sizes WindowSizes(const Sizes& sizes, const Sizes& collapsed) {
  Sizes result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!Has(collapsed, d)) result.push_back(sizes[d]);
  }
  return result;
}

// The order in which window dimensions come last, behind those of the batch.
template <typename T>
std::vector<unsigned> WindowsLast(size_t rank, const std::vector<T>& window_dims) {
  std::vector<unsigned> order;
  for (unsigned d = 0; d < rank; ++d) {
    if (!Has(window_dims, d)) order.push_back(d);
  }
  for (const T d : window_dims) order.push_back(static_cast<unsigned>(d));
  return order;
}

}  // namespace

Tensor createGatherInput(Graph& graph, const poplar::Type& type, const Sizes& operandShape,
                         unsigned axis, GatherParams, const DebugContext& debugContext) {
  const Call call("popops::createGatherInput", debugContext);
  call.Require(
      axis < operandShape.size(),
      "axis " + std::to_string(axis) + " does not exist in shape " + TextOf(operandShape) + ".");
  return NewLinear(graph, type, operandShape, debugContext);
}

Tensor createGatherInput(Graph& graph, const poplar::Type& type, const Sizes& inputShape,
                         const Sizes&, std::vector<unsigned>, const DebugContext& debugContext) {
  return NewLinear(graph, type, inputShape, debugContext);
}

Tensor gather(Graph& graph, const Tensor& input, const Tensor& indices, unsigned axis,
              Sequence& prog, GatherParams, const DebugContext& debugContext,
              const OptionFlags& optionFlags) {
  const Call call("popops::gather", debugContext);
  call.Require(axis < input.rank(), "axis " + std::to_string(axis) + " does not exist in shape " +
                                        TextOf(input.shape()) + ".");
  Sizes sizes = input.shape(), offset_dims;
  sizes[axis] = 1;
  for (size_t d = 0; d < axis; ++d) offset_dims.push_back(d);
  for (size_t d = axis + 1; d < input.rank(); ++d) offset_dims.push_back(d + indices.rank() - 1);
  return gather(graph, input, indices, indices.rank(), offset_dims, sizes, {axis}, {axis}, prog,
                debugContext, optionFlags);
}

Tensor gather(Graph& graph, const Tensor& input, const Tensor& indices, size_t indexVectorDim,
              const Sizes& offsetDims, const Sizes& sliceSizes, const Sizes& collapsedSliceDims,
              const std::vector<unsigned>& startIndexMap, Sequence& prog,
              const DebugContext& debugContext, const OptionFlags& optionFlags) {
  const Call call("popops::gather", debugContext);
  call.CheckOptions(optionFlags, kOptions);
  CheckIndices(indices, indexVectorDim, startIndexMap.size(), call);
  call.Require(sliceSizes.size() == input.rank(),
               "sliceSizes needs a size for each dimension of " + TextOf(input.shape()) + ".");
  for (unsigned d = 0; d < input.rank(); ++d) {
    call.Require(sliceSizes[d] <= input.dim(d), "a slice " + TextOf(sliceSizes) +
                                                    " is larger than the input " +
                                                    TextOf(input.shape()) + ".");
  }
  for (const unsigned d : startIndexMap) {
    call.Require(d < input.rank(), "a dimension of startIndexMap does not exist.");
  }
  const Tensor vectors = WithVectorsLast(indices, indexVectorDim);
  const Sizes window = WindowSizes(sliceSizes, collapsedSliceDims);
  call.Require(window.size() == offsetDims.size(),
               "offsetDims names " + std::to_string(offsetDims.size()) + " dimensions for " +
                   std::to_string(window.size()) + " of a window.");
  // The result with the dimensions of windows where `offsetDims` says.
  const size_t rank = vectors.rank() - 1 + window.size();
  Sizes shape(rank);
  const std::vector<unsigned> order = WindowsLast(rank, offsetDims);
  call.Require(order.size() == rank, "offsetDims names a dimension that does not exist.");
  Sizes in_order = vectors.shape();
  in_order.pop_back();
  in_order.insert(in_order.end(), window.begin(), window.end());
  for (size_t d = 0; d < rank; ++d) shape[order[d]] = in_order[d];
  const Tensor result = NewLinear(graph, input.elementType(), shape, debugContext);
  const WindowParameters parameters{sliceSizes, {startIndexMap.begin(), startIndexMap.end()}};
  prog.add(poplar::core::libraryOp(graph, "popops::gather", parameters.text(), {input, vectors},
                                   {result.dimShuffle(order)}, debugContext));
  return result;
}

namespace {

// A checked scatter: index vectors {..., numbers}, and updates with their windows last.
struct Scatter {
  Tensor vectors, updates;
  WindowParameters parameters;
};

Scatter CheckedScatter(const Call& call, const Tensor& operand, const Tensor& indices,
                       const Tensor& updates, size_t indexVectorDim,
                       const std::vector<unsigned>& updateWindowDims, const Sizes& insertWindowDims,
                       const std::vector<unsigned>& scatterDimsToOperandDims) {
  CheckIndices(indices, indexVectorDim, scatterDimsToOperandDims.size(), call);
  call.RequireType("updates", updates, operand.elementType());
  call.RequireWriteable("the operand", operand);
  const Tensor vectors = WithVectorsLast(indices, indexVectorDim);
  const std::vector<unsigned> order = WindowsLast(updates.rank(), updateWindowDims);
  call.Require(order.size() == updates.rank(),
               "updateWindowDims names a dimension that does not exist.");
  const Tensor in_order = updates.dimShuffle(order);
  Sizes batch = vectors.shape();
  batch.pop_back();
  const Sizes given = in_order.shape();
  if (given.size() != batch.size() + updateWindowDims.size() ||
      !std::equal(batch.begin(), batch.end(), given.begin())) {
    call.Fail("updates of shape " + TextOf(updates.shape()) + " do not fit indices of shape " +
              TextOf(indices.shape()) + ".");
  }
  // Inserted dimensions have one element in a window.
  Sizes sizes(operand.rank(), 1);
  size_t next = batch.size();
  for (unsigned d = 0; d < operand.rank(); ++d) {
    if (Has(insertWindowDims, d)) continue;
    call.Require(next < given.size() && given[next] <= operand.dim(d),
                 "windows of the updates " + TextOf(updates.shape()) + " do not fit the operand " +
                     TextOf(operand.shape()) + ".");
    sizes[d] = given[next++];
  }
  return {vectors,
          in_order,
          {sizes, {scatterDimsToOperandDims.begin(), scatterDimsToOperandDims.end()}}};
}

}  // namespace

void scatter(Graph& graph, const Tensor& operand, const Tensor& indices, const Tensor& updates,
             size_t indexVectorDim, std::vector<unsigned> updateWindowDims, Sizes insertWindowDims,
             std::vector<unsigned> scatterDimsToOperandDims, Sequence& prog,
             const DebugContext& debugContext, const OptionFlags& optionFlags) {
  const Call call("popops::scatter", debugContext);
  call.CheckOptions(optionFlags, kOptions);
  const Scatter op = CheckedScatter(call, operand, indices, updates, indexVectorDim,
                                    updateWindowDims, insertWindowDims, scatterDimsToOperandDims);
  prog.add(poplar::core::libraryOp(graph, "popops::scatter", op.parameters.text(),
                                   {operand, op.vectors, op.updates}, {operand}, debugContext,
                                   poplar::core::KernelAliasing::SameTensor));
}

void scatter(Graph& graph, const Tensor& operand, const Tensor& indices, const Tensor& updates,
             size_t indexVectorDim, std::vector<unsigned> updateWindowDims, Sizes insertWindowDims,
             std::vector<unsigned> scatterDimsToOperandDims,
             UpdateComputationFunc& updateComputation, Sequence& prog,
             const DebugContext& debugContext, const OptionFlags& optionFlags) {
  const Call call("popops::scatter", debugContext);
  call.CheckOptions(optionFlags, kOptions);
  const Scatter op = CheckedScatter(call, operand, indices, updates, indexVectorDim,
                                    updateWindowDims, insertWindowDims, scatterDimsToOperandDims);
  const unsigned batch = op.vectors.rank() - 1;
  const Sizes all = op.updates.shape();
  Sizes windows(all.begin() + batch, all.end());
  const Sizes window = windows;
  const size_t count = CountOf(Sizes(all.begin(), all.begin() + batch));
  windows.insert(windows.begin(), count);
  const Tensor vectors = op.vectors.reshape({count, op.vectors.dim(batch)});
  const Tensor rows = op.updates.reshape(windows);
  // One window after the other, so that windows that meet are combined in their order.
  prog.add(countedLoop(
      graph, count,
      [&](const Tensor& index) {
        Sequence step(debugContext);
        const Tensor vector = dynamicSlice(graph, vectors, index, {0}, {1}, step, debugContext);
        Tensor update = dynamicSlice(graph, rows, index, {0}, {1}, step, debugContext).squeeze({0});
        Tensor before = graph.clone(update, debugContext);
        step.add(poplar::core::libraryOp(graph, "popops::gather", op.parameters.text(),
                                         {operand, vector}, {before}, debugContext));
        const Tensor after = updateComputation(graph, before, update, step);
        call.RequireType("the result of the function", after, operand.elementType());
        call.RequireShape("the result of the function", after, window);
        step.add(poplar::core::libraryOp(graph, "popops::scatter", op.parameters.text(),
                                         {operand, vector, after}, {operand}, debugContext,
                                         poplar::core::KernelAliasing::SameTensor));
        return step;
      },
      debugContext));
}

}  // namespace popops
