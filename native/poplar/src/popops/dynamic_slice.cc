#include "popops/DynamicSlice.hpp"

#include <algorithm>

#include "poplar/core/LibraryOp.hpp"
#include "popops/ElementWise.hpp"
#include "popops/ScaledAdd.hpp"
#include "popops/slice_ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::ArrayRef;
using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::core::KernelAliasing;
using poplar::program::Copy;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;
using Sizes = std::vector<size_t>;

// ---- plans

struct SlicePlanner {
  static SlicePlan Make(size_t groups, size_t entries, size_t output, const Sizes& lookups) {
    SlicePlan plan;
    plan.groupSize_ = groups;
    plan.numEntries_ = entries;
    plan.outputSize_ = output;
    plan.numLookups_ = lookups;
    return plan;
  }
};

std::ostream& operator<<(std::ostream& os, const SlicePlan& plan) {
  return os << "SlicePlan(" << plan.groupSize_ << " tables of " << plan.numEntries_ << " x "
            << plan.outputSize_ << ")";
}

namespace {

void CheckSliceOptions(const Call& call, const OptionFlags& options) {
  call.CheckOptions(
      options, {"availableMemoryProportion", "usedForSlice", "usedForUpdate", "operationForUpdate",
                "indicesAreSorted", "validateIndices", "paddingIndexUsed", "remapOutOfBoundIndices",
                "indicesDistribution", "partialType", "planMinimisationTarget"});
}

bool IsSet(const OptionFlags& options, const char* name) {
  const auto option = options.find(name);
  return option != options.end() && option->second == "true";
}

// Dimensions and sizes of slices of a table of `shape`.
void CheckSlice(const Sizes& shape, const Sizes& dims, const Sizes& sizes, const Call& call) {
  if (dims.size() != sizes.size()) {
    call.Fail(std::to_string(dims.size()) + " dimensions and " + std::to_string(sizes.size()) +
              " sizes are given.");
  }
  std::vector<bool> seen(shape.size(), false);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= shape.size()) {
      call.Fail("dimension " + std::to_string(dims[i]) + " does not exist in shape " +
                TextOf(shape) + ".");
    }
    call.Require(!seen[dims[i]], "dimension " + std::to_string(dims[i]) + " is named twice.");
    seen[dims[i]] = true;
    if (sizes[i] > shape[dims[i]]) {
      call.Fail("a slice of size " + std::to_string(sizes[i]) + " is larger than dimension " +
                std::to_string(dims[i]) + " of shape " + TextOf(shape) + ".");
    }
  }
}

Sizes SliceShape(Sizes shape, const Sizes& dims, const Sizes& sizes) {
  for (size_t i = 0; i < dims.size(); ++i) shape[dims[i]] = sizes[i];
  return shape;
}

Sizes Joined(Sizes first, const Sizes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void CheckOffsetType(const Tensor& offsets, const Call& call) {
  const Type type = offsets.elementType();
  call.Require(type == poplar::UNSIGNED_INT || type == poplar::INT,
               "offsets have to be of unsigned int, not of " + TextOf(type) + ".");
}

void CheckOffset(const Tensor& offset, const Sizes& dims, const Call& call) {
  CheckOffsetType(offset, call);
  if (offset.numElements() != dims.size()) {
    call.Fail("the offset has " + std::to_string(offset.numElements()) + " elements for " +
              std::to_string(dims.size()) + " dimensions.");
  }
}

SliceParameters ParametersOf(const Sizes& dims, const Sizes& sizes) {
  SliceParameters parameters;
  parameters.dims = dims;
  parameters.sizes = sizes;
  return parameters;
}

}  // namespace

SlicePlan embedding::plan(const Graph& graph, const Type& dataType, const size_t numEntries,
                          const size_t outputSize, const Sizes& numLookups,
                          const OptionFlags& options) {
  return plan(graph, dataType, 1, numEntries, outputSize, numLookups, options);
}

SlicePlan embedding::plan(const Graph&, const Type&, const size_t groupSize,
                          const size_t numEntries, const size_t outputSize, const Sizes& numLookups,
                          const OptionFlags& options) {
  CheckSliceOptions(Call("popops::embedding::plan", DebugContext(poplar::SourceLocation())),
                    options);
  return SlicePlanner::Make(groupSize, numEntries, outputSize, numLookups);
}

std::vector<SlicePlan> embedding::planMultiple(
    const std::vector<SlicePlanningParameters>& parameters) {
  std::vector<SlicePlan> plans;
  for (const SlicePlanningParameters& p : parameters) {
    plans.push_back(plan(p.graph, p.dataType, p.groupSize, p.numEntries, p.outputSize, p.numLookups,
                         p.optionFlags));
  }
  return plans;
}

// ---- tensors to be sliced

namespace {

// Beyond as many intervals, a mapping costs more than it says.
constexpr size_t kMostIntervals = 1 << 14;

// Maps the elements of each slice over the tiles alike.
void MapBySlices(Graph& graph, const Tensor& t, const Sizes& dims, size_t grain) {
  std::vector<unsigned> order;
  for (unsigned d = 0; d < t.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  const unsigned unsliced = static_cast<unsigned>(order.size());
  for (const size_t d : dims) order.push_back(static_cast<unsigned>(d));
  const Tensor elements = t.dimShuffle(order).flatten(0, unsliced);
  const unsigned vector = std::max(1u, graph.getTarget().getVectorWidth(t.elementType()));
  const auto mapping = poputil::calcLinearTileMapping(
      graph, {elements.dim(0)}, static_cast<unsigned>(std::max<size_t>(grain, vector)),
      static_cast<unsigned>(std::max<size_t>(grain, 1)));
  size_t tiles = 0;
  for (const auto& regions : mapping) tiles += regions.size();
  const size_t slices = elements.dim(0) == 0 ? 0 : t.numElements() / elements.dim(0);
  if (tiles * slices > kMostIntervals || tiles == 0) {
    poputil::mapTensorLinearly(graph, t);
    return;
  }
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const poplar::Interval& region : mapping[tile]) {
      graph.setTileMapping(elements.slice(region), tile);
    }
  }
}

}  // namespace

Tensor createSliceableTensor(Graph& graph, const Type& type, const Sizes& shape, const Sizes& dims,
                             const Sizes& sizes, size_t minGrainSize,
                             const DebugContext& debugContext) {
  CheckSlice(shape, dims, sizes, Call("popops::createSliceableTensor", debugContext));
  const Tensor t = graph.addVariable(type, shape, debugContext);
  MapBySlices(graph, t, dims, minGrainSize);
  return t;
}

Tensor createSliceableTensor(Graph& graph, const Type& type, const Sizes& shape, const Sizes& dims,
                             const Sizes& sizes, const SlicePlan&, const OptionFlags& options,
                             const DebugContext& debugContext) {
  const Call call("popops::createSliceableTensor", debugContext);
  CheckSliceOptions(call, options);
  CheckSlice(shape, dims, sizes, call);
  return NewLinear(graph, type, shape, debugContext);
}

Tensor createGroupedSliceableTensor(Graph& graph, const Type& type, const size_t groupSize,
                                    const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                                    const SlicePlan&, const OptionFlags& options,
                                    const DebugContext& debugContext) {
  const Call call("popops::createGroupedSliceableTensor", debugContext);
  CheckSliceOptions(call, options);
  CheckSlice(shape, dims, sizes, call);
  return NewLinear(graph, type, Joined({groupSize}, shape), debugContext);
}

Tensor createSliceableTensorFromSlice(Graph& graph, const Tensor& s, const Sizes& dims,
                                      const Sizes& numSlices, const DebugContext& debugContext) {
  const Call call("popops::createSliceableTensorFromSlice", debugContext);
  call.Require(dims.size() == numSlices.size(), "dims and numSlices have different lengths.");
  Sizes shape = s.shape();
  for (size_t i = 0; i < dims.size(); ++i) {
    call.Require(dims[i] < shape.size(), "a dimension of dims does not exist.");
    shape[dims[i]] *= numSlices[i];
  }
  const Tensor t = graph.addVariable(s.elementType(), shape, debugContext);
  MapBySlices(graph, t, dims, 0);
  return t;
}

Tensor createSliceTensor(Graph& graph, const Tensor& t, const Sizes& dims, const Sizes& sizes,
                         size_t numIndices, const DebugContext& debugContext) {
  CheckSlice(t.shape(), dims, sizes, Call("popops::createSliceTensor", debugContext));
  return NewLinear(graph, t.elementType(), Joined({numIndices}, SliceShape(t.shape(), dims, sizes)),
                   debugContext);
}

Tensor createSliceTensor(Graph& graph, const Type& type, const Sizes& shape, const Sizes& dims,
                         const Sizes& sizes, size_t numIndices, const SlicePlan&,
                         const OptionFlags& options, const DebugContext& debugContext) {
  const Call call("popops::createSliceTensor", debugContext);
  CheckSliceOptions(call, options);
  CheckSlice(shape, dims, sizes, call);
  return NewLinear(graph, type, Joined({numIndices}, SliceShape(shape, dims, sizes)), debugContext);
}

Tensor createGroupedSliceTensor(Graph& graph, const Type& type, const size_t groupSize,
                                const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                                const size_t numIndices, const SlicePlan&,
                                const OptionFlags& options, const DebugContext& debugContext) {
  const Call call("popops::createGroupedSliceTensor", debugContext);
  CheckSliceOptions(call, options);
  CheckSlice(shape, dims, sizes, call);
  return NewLinear(graph, type, Joined({groupSize, numIndices}, SliceShape(shape, dims, sizes)),
                   debugContext);
}

Tensor createIndicesTensor(Graph& graph, const Sizes& dims, size_t numIndices, const SlicePlan&,
                           const OptionFlags& options, const DebugContext& debugContext) {
  CheckSliceOptions(Call("popops::createIndicesTensor", debugContext), options);
  return NewLinear(graph, poplar::UNSIGNED_INT, {numIndices, dims.size()}, debugContext);
}

Tensor createGroupedIndicesTensor(Graph& graph, const size_t groupSize, const Sizes& dims,
                                  const size_t numIndices, const SlicePlan&,
                                  const OptionFlags& options, const DebugContext& debugContext) {
  CheckSliceOptions(Call("popops::createGroupedIndicesTensor", debugContext), options);
  return NewLinear(graph, poplar::UNSIGNED_INT, {groupSize, numIndices, dims.size()}, debugContext);
}

// ---- one slice

namespace {

// The slice at offset 0.
Tensor FirstSlice(const Tensor& t, const Sizes& dims, const Sizes& sizes) {
  Tensor slice = t;
  for (size_t i = 0; i < dims.size(); ++i) {
    slice = slice.slice(0, sizes[i], static_cast<unsigned>(dims[i]));
  }
  return slice;
}

void AddDynamicSlice(Graph& graph, const Tensor& output, const Tensor& t, const Tensor& offset,
                     const Sizes& dims, const Sizes& sizes, Sequence& prog,
                     const OptionFlags& options, const Call& call) {
  CheckSliceOptions(call, options);
  CheckSlice(t.shape(), dims, sizes, call);
  CheckOffset(offset, dims, call);
  call.RequireType("the output", output, t.elementType());
  call.RequireShape("the output", output, SliceShape(t.shape(), dims, sizes));
  call.RequireWriteable("the output", output);
  prog.add(poplar::core::libraryOp(graph, "popops::dynamicSlice", ParametersOf(dims, sizes).text(),
                                   {t, offset}, {output}, call.context()));
}

}  // namespace

Tensor dynamicSlice(Graph& graph, const Tensor& t, const Tensor& offset, const Sizes& dims,
                    const Sizes& sizes, Sequence& prog, const DebugContext& debugContext,
                    const OptionFlags& options) {
  const Call call("popops::dynamicSlice", debugContext);
  CheckSlice(t.shape(), dims, sizes, call);
  const Tensor output = graph.clone(FirstSlice(t, dims, sizes), debugContext,
                                    poplar::TensorCloneMethod::CREATE_NEW_ORDER);
  AddDynamicSlice(graph, output, t, offset, dims, sizes, prog, options, call);
  return output;
}

void dynamicSliceWithOutput(Graph& graph, const Tensor& output, const Tensor& t,
                            const Tensor& offset, const Sizes& dims, const Sizes& sizes,
                            Sequence& prog, const DebugContext& debugContext,
                            const OptionFlags& options) {
  AddDynamicSlice(graph, output, t, offset, dims, sizes, prog, options,
                  Call("popops::dynamicSliceWithOutput", debugContext));
}

Tensor createDynamicSliceOutput(Graph& graph, const Tensor& t, const Tensor&, const Sizes& dims,
                                const Sizes& sizes, const DebugContext& debugContext,
                                const OptionFlags& options) {
  const Call call("popops::createDynamicSliceOutput", debugContext);
  CheckSliceOptions(call, options);
  CheckSlice(t.shape(), dims, sizes, call);
  return graph.clone(FirstSlice(t, dims, sizes), debugContext,
                     poplar::TensorCloneMethod::CREATE_NEW_ORDER);
}

Graph::TileToTensorMapping getSliceMapping(Graph& graph, const Tensor& t, const Sizes& dims,
                                           const Sizes& sizes) {
  CheckSlice(t.shape(), dims, sizes,
             Call("popops::getSliceMapping", DebugContext(poplar::SourceLocation())));
  return graph.getTileMapping(FirstSlice(t, dims, sizes));
}

void dynamicUpdate(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offset,
                   const Sizes& dims, const Sizes& sizes, Sequence& prog,
                   const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::dynamicUpdate", debugContext);
  CheckSliceOptions(call, options);
  CheckSlice(t.shape(), dims, sizes, call);
  CheckOffset(offset, dims, call);
  call.RequireType("the slice", s, t.elementType());
  call.RequireShape("the slice", s, SliceShape(t.shape(), dims, sizes));
  call.RequireWriteable("the tensor", t);
  prog.add(poplar::core::libraryOp(graph, "popops::dynamicUpdate", ParametersOf(dims, sizes).text(),
                                   {t, s, offset}, {t}, call.context(),
                                   KernelAliasing::SameTensor));
}

// ---- many slices

namespace {

// Lookups or updates at many offsets of one table, or of several.
class MultiSlices {
 public:
  MultiSlices(const char* function, Graph& graph, const Tensor& t, const Tensor& offsets,
              const Sizes& dims, const Sizes& sizes, bool grouped, const OptionFlags& options,
              const DebugContext& context)
      : call_(function, context), graph_(graph), t_(t), offsets_(offsets) {
    CheckSliceOptions(call_, options);
    parameters_ = ParametersOf(dims, sizes);
    parameters_.grouped = grouped;
    parameters_.pads = IsSet(options, "paddingIndexUsed");
    parameters_.remaps = IsSet(options, "remapOutOfBoundIndices");
    Sizes table = t.shape();
    call_.Require(!grouped || !table.empty(), "the tensor has no dimension of groups.");
    if (grouped) table.erase(table.begin());
    CheckSlice(table, dims, sizes, call_);
    CheckOffsetType(offsets, call_);
    const unsigned rank = grouped ? 3 : 2;
    const bool groups_fit = !grouped || (offsets.rank() == rank && offsets.dim(0) == t.dim(0));
    if (offsets.rank() != rank || offsets.dim(rank - 1) != dims.size() || !groups_fit) {
      call_.Fail("offsets have the shape " + TextOf(offsets.shape()) + "; it has to be {" +
                 (grouped ? std::to_string(t.dim(0)) + "," : "") + "number of slices," +
                 std::to_string(dims.size()) + "}.");
    }
    slices_ = Joined(Sizes(1, offsets.dim(rank - 2)), SliceShape(table, dims, sizes));
    if (grouped) slices_.insert(slices_.begin(), t.dim(0));
  }

  Tensor Lookup(Sequence& prog) {
    const Tensor result = NewLinear(graph_, t_.elementType(), slices_, call_.context());
    prog.add(poplar::core::libraryOp(graph_, "popops::multiSlice", parameters_.text(),
                                     {t_, offsets_, result}, {result}, call_.context(),
                                     KernelAliasing::SameTensor));
    return result;
  }

  void Update(SliceUpdate update, const Tensor& s, const Tensor* scale, Sequence& prog) {
    parameters_.update = update;
    call_.RequireType("the slices", s, t_.elementType());
    call_.RequireShape("the slices", s, slices_);
    call_.RequireWriteable("the tensor", t_);
    if (update != SliceUpdate::kNone && t_.elementType() == poplar::BOOL) {
      call_.Fail("elements of bool can only be replaced.");
    }
    std::vector<Tensor> inputs = {t_, s, offsets_};
    if (scale != nullptr) {
      call_.Require(scale->numElements() == 1, "the scale has to be one element.");
      inputs.push_back(*scale);
    }
    prog.add(poplar::core::libraryOp(graph_, "popops::multiUpdate", parameters_.text(), inputs,
                                     {t_}, call_.context(), KernelAliasing::SameTensor));
  }

 private:
  const Call call_;
  Graph& graph_;
  const Tensor t_, offsets_;
  SliceParameters parameters_;
  // The shape of all slices.
  Sizes slices_;
};

// Slices of one element of a dimension, after each other in it.
Tensor ConstantSlices(const Tensor& t, ArrayRef<unsigned> offsets, size_t dim, const Call& call) {
  call.Require(dim < t.rank(), "dimension " + std::to_string(dim) + " does not exist in shape " +
                                   TextOf(t.shape()) + ".");
  for (const unsigned offset : offsets) {
    call.Require(offset < t.dim(static_cast<unsigned>(dim)),
                 "offset " + std::to_string(offset) + " is beyond dimension " +
                     std::to_string(dim) + " of shape " + TextOf(t.shape()) + ".");
  }
  const unsigned d = static_cast<unsigned>(dim);
  return offsets.empty() ? t.slice(0, 0, d) : poplar::concat(t.slices(offsets, d), d);
}

}  // namespace

Tensor multiSlice(Graph& graph, const Tensor& t, const Tensor& offsets, const Sizes& dims,
                  const Sizes& sizes, Sequence& prog, const SlicePlan&, const OptionFlags& options,
                  const DebugContext& debugContext) {
  return MultiSlices("popops::multiSlice", graph, t, offsets, dims, sizes, false, options,
                     debugContext)
      .Lookup(prog);
}

Tensor multiSlice(Graph& graph, const Tensor& t, ArrayRef<unsigned> offsets, size_t dim,
                  Sequence& prog, const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::multiSlice", debugContext);
  CheckSliceOptions(call, options);
  const Tensor slices = ConstantSlices(t, offsets, dim, call);
  const Tensor result = NewLinear(graph, t.elementType(), slices.shape(), debugContext);
  prog.add(Copy(slices, result, false, debugContext));
  return result;
}

Tensor groupedMultiSlice(Graph& graph, const Tensor& t, const Tensor& offsets, const Sizes& dims,
                         const Sizes& sizes, Sequence& prog, const SlicePlan&,
                         const OptionFlags& options, const DebugContext& debugContext) {
  return MultiSlices("popops::groupedMultiSlice", graph, t, offsets, dims, sizes, true, options,
                     debugContext)
      .Lookup(prog);
}

// Updates of one table and of several are alike.
#define MULTI_UPDATE(NAME, GROUPED, UPDATE)                                                       \
  void NAME(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offsets,                \
            const Sizes& dims, const Sizes& sizes, Sequence& prog, const SlicePlan&,              \
            const OptionFlags& options, const DebugContext& debugContext) {                       \
    MultiSlices("popops::" #NAME, graph, t, offsets, dims, sizes, GROUPED, options, debugContext) \
        .Update(UPDATE, s, nullptr, prog);                                                        \
  }
MULTI_UPDATE(multiUpdate, false, SliceUpdate::kNone)
MULTI_UPDATE(groupedMultiUpdate, true, SliceUpdate::kNone)
MULTI_UPDATE(multiUpdateMax, false, SliceUpdate::kMax)
MULTI_UPDATE(groupedMultiUpdateMax, true, SliceUpdate::kMax)
MULTI_UPDATE(multiUpdateMul, false, SliceUpdate::kMul)
MULTI_UPDATE(groupedMultiUpdateMul, true, SliceUpdate::kMul)
#undef MULTI_UPDATE

void multiUpdateAdd(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offsets,
                    const Tensor& scale, const Sizes& dims, const Sizes& sizes, Sequence& prog,
                    const SlicePlan&, const OptionFlags& options,
                    const DebugContext& debugContext) {
  MultiSlices("popops::multiUpdateAdd", graph, t, offsets, dims, sizes, false, options,
              debugContext)
      .Update(SliceUpdate::kAdd, s, &scale, prog);
}

void multiUpdateAdd(Graph& graph, const Tensor& t, const Tensor& s, ArrayRef<unsigned> offsets,
                    const Tensor& scale, size_t dim, Sequence& prog,
                    const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::multiUpdateAdd", debugContext);
  CheckSliceOptions(call, options);
  const unsigned d = static_cast<unsigned>(dim);
  call.RequireShape("the slices", s, ConstantSlices(t, offsets, dim, call).shape());
  for (unsigned k = 0; k < offsets.size(); ++k) {
    scaledAddTo(graph, t.slice(offsets[k], offsets[k] + 1, d), s.slice(k, k + 1, d), scale, prog,
                debugContext);
  }
}

void groupedMultiUpdateAdd(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offsets,
                           const Tensor& scale, const Sizes& dims, const Sizes& sizes,
                           Sequence& prog, const SlicePlan&, const OptionFlags& options,
                           const DebugContext& debugContext) {
  MultiSlices("popops::groupedMultiUpdateAdd", graph, t, offsets, dims, sizes, true, options,
              debugContext)
      .Update(SliceUpdate::kAdd, s, &scale, prog);
}

}  // namespace popops
