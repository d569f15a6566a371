// Functions of popops that are not elementwise, by name.
#ifndef TESTS_FRONTENDS_POPLAR_POPOPS_FUNCTIONS_HPP_
#define TESTS_FRONTENDS_POPLAR_POPOPS_FUNCTIONS_HPP_

#include <poplar/Quarter.hpp>
#include <popops/AllTrue.hpp>
#include <popops/Cast.hpp>
#include <popops/CircBuf.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/Encoding.hpp>
#include <popops/EncodingConstants.hpp>
#include <popops/Fill.hpp>
#include <popops/Gather.hpp>
#include <popops/GatherStatistics.hpp>
#include <popops/HostSliceTensor.hpp>
#include <popops/Loop.hpp>
#include <popops/NaN.hpp>
#include <popops/NormaliseImage.hpp>
#include <popops/Operation.hpp>
#include <popops/Pad.hpp>
#include <popops/Rearrange.hpp>
#include <popops/Reduce.hpp>
#include <popops/ScaledAdd.hpp>
#include <popops/Scatter.hpp>
#include <popops/SelectScalarFromRows.hpp>
#include <popops/SequenceSlice.hpp>
#include <popops/Sort.hpp>
#include <popops/SplineBasis.hpp>
#include <popops/SplineWeighting.hpp>
#include <popops/TopK.hpp>
#include <popops/UpdateScalarInRows.hpp>
#include <popops/Zero.hpp>
#include <poputil/Util.hpp>

#include <sstream>

#include "../harness.hpp"

using harness::Arguments;
using poplar::ComputeSet;
using poplar::Tensor;
using poplar::program::Execute;

inline popops::Operation operation(Arguments &a) {
  std::istringstream word(a.word());
  popops::Operation op;
  word >> op;
  return op;
}

// `update`, and a scale or `-`.
inline popops::ReduceParams reduceParams(Arguments &a) {
  const popops::Operation op = operation(a);
  const bool update = a.natural() != 0;
  const std::string scale = a.word();
  if (scale == "-") return popops::ReduceParams(op, update);
  return popops::ReduceParams(op, update, a.named(scale));
}

inline void addReductions(harness::Functions &f) {
  f["reduce"] = [](Arguments &a) {
    const Tensor in = a.tensor();
    const std::vector<std::size_t> dims = a.list();
    const popops::Operation op = operation(a);
    return popops::reduce(a.graph, in, dims, op, a.prog, "reduce");
  };
  f["reduceToType"] = [](Arguments &a) {
    const Tensor in = a.tensor();
    const poplar::Type type = a.type();
    const std::vector<std::size_t> dims = a.list();
    return popops::reduce(a.graph, in, type, dims, reduceParams(a), a.prog);
  };
  f["reduceInComputeSets"] = [](Arguments &a) {
    const Tensor in = a.tensor();
    const std::vector<std::size_t> dims = a.list();
    std::vector<ComputeSet> css;
    const Tensor out = popops::reduce(a.graph, in, dims, operation(a), css);
    for (const ComputeSet &cs : css) a.prog.add(Execute(cs));
    return out;
  };
  f["reduceWithOutput"] = [](Arguments &a) {
    const Tensor in = a.tensor(), out = a.tensor();
    const std::vector<std::size_t> dims = a.list();
    popops::reduceWithOutput(a.graph, in, out, dims, reduceParams(a), a.prog);
    return Tensor();
  };
  f["reduceMany"] = [](Arguments &a) {
    const Tensor first = a.tensor(), second = a.tensor();
    std::vector<Tensor> outputs;
    const std::vector<popops::SingleReduceOp> ops = {{first, {0}, popops::Operation::ADD},
                                                     {second, {1}, popops::Operation::MAX, "max"}};
    popops::reduceMany(a.graph, ops, outputs, a.prog);
    return poplar::concat(outputs);
  };
  f["allTrue"] = [](Arguments &a) { return popops::allTrue(a.graph, a.tensor(), a.prog); };
  f["hasNaN"] = [](Arguments &a) { return popops::hasNaN(a.graph, a.tensor(), a.prog); };
  f["hasNaNOrInf"] = [](Arguments &a) { return popops::hasNaNOrInf(a.graph, a.tensor(), a.prog); };
}

inline void addWrites(harness::Functions &f) {
  f["cast"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    return popops::cast(a.graph, t, a.type(), a.prog, "cast");
  };
  // The codes of quarters, and the numbers that a copy of them stands for.
  f["castToQuarters"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const poplar::QuarterMetadata::Format format = a.natural() == 143
                                                       ? poplar::QuarterMetadata::Format::F143
                                                       : poplar::QuarterMetadata::Format::F152;
    const Tensor metadata =
        poputil::createConstantMetadataTensor(a.graph, format, static_cast<int>(a.number()));
    const Tensor other =
        poputil::createVariableMetadataTensor(a.graph, poplar::QuarterMetadata::Format::F152, 2);
    const Tensor quarters = popops::cast(a.graph, t, poplar::QUARTER, metadata, a.prog);
    const Tensor copy = a.graph.clone(quarters);
    a.prog.add(poplar::program::Copy(quarters, copy));
    if (!copy.hasMetadata() || t.hasMetadata()) std::abort();
    popops::castWithOutput(a.graph, copy, a.tensor(), a.prog);
    const Tensor again = popops::cast(a.graph, quarters, poplar::QUARTER, other, a.prog);
    a.prog.add(popops::cast(a.graph, again.slice(0, 1), a.tensor().slice(0, 1)));
    return quarters.reinterpret(poplar::UNSIGNED_CHAR);
  };
  f["castWithoutMetadata"] = [](Arguments &a) {
    return popops::cast(a.graph, a.tensor(), poplar::QUARTER, a.prog);
  };
  f["castProgram"] = [](Arguments &a) {
    const Tensor from = a.tensor();
    a.prog.add(popops::cast(a.graph, from, a.tensor()));
    return Tensor();
  };
  f["castInComputeSet"] = [](Arguments &a) {
    const ComputeSet cs = a.graph.addComputeSet("cast");
    const Tensor from = a.tensor(), to = a.tensor();
    popops::cast(a.graph, from, to, cs);
    const Tensor result = popops::cast(a.graph, from, to.elementType(), cs);
    a.prog.add(Execute(cs));
    return result;
  };
  f["castWithOutput"] = [](Arguments &a) {
    const Tensor from = a.tensor();
    popops::castWithOutput(a.graph, from, a.tensor(), a.prog);
    return Tensor();
  };
  f["checkAccuracyWhenCast"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const poplar::Type type = a.type();
    return popops::checkAccuracyWhenCast(a.graph, t, type, a.number(), a.prog);
  };
  f["zero"] = [](Arguments &a) {
    popops::zero(a.graph, a.tensor(), a.prog);
    return Tensor();
  };
  f["zeroInComputeSet"] = [](Arguments &a) {
    const ComputeSet cs = a.graph.addComputeSet();
    const Tensor t = a.tensor(), part = a.tensor(), mapped = a.tensor();
    popops::zero(a.graph, t, 0, cs);
    popops::zero(a.graph, part, {{0, 2}, {3, 4}}, 0, cs);
    popops::zero(a.graph, mapped, a.graph.getTileMapping(mapped), cs);
    a.prog.add(Execute(cs));
    return Tensor();
  };
  f["fill"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    popops::fill(a.graph, t, a.prog, static_cast<float>(a.number()));
    return Tensor();
  };
  f["fillInComputeSet"] = [](Arguments &a) {
    const ComputeSet cs = a.graph.addComputeSet();
    const Tensor t = a.tensor(), part = a.tensor(), mapped = a.tensor();
    popops::fill(a.graph, t, 0, cs, 1.5f);
    popops::fill(a.graph, part, {{0, 2}, {3, 4}}, 0, cs, 2);
    popops::fill(a.graph, mapped, a.graph.getTileMapping(mapped), cs, 3u);
    a.prog.add(Execute(cs));
    return Tensor();
  };
  f["scaledAddTo"] = [](Arguments &a) {
    const Tensor A = a.tensor(), B = a.tensor();
    if (a.isNumber()) {
      popops::scaledAddTo(a.graph, A, B, static_cast<float>(a.number()), a.prog);
    } else {
      popops::scaledAddTo(a.graph, A, B, a.tensor(), a.prog);
    }
    return Tensor();
  };
  f["scaledAddToBoth"] = [](Arguments &a) {
    const auto speciality = a.natural() != 0 ? popops::ScaledAddSpecialisation::X_MINUS_AX_PLUS_BY
                                             : popops::ScaledAddSpecialisation::DEFAULT;
    const Tensor A = a.tensor();
    if (a.isNumber()) {
      const float scale = static_cast<float>(a.number());
      const Tensor B = a.tensor();
      popops::scaledAddTo(a.graph, A, scale, B, static_cast<float>(a.number()), a.prog, speciality);
    } else {
      const Tensor scale = a.tensor(), B = a.tensor();
      popops::scaledAddTo(a.graph, A, scale, B, a.tensor(), a.prog, speciality);
    }
    return Tensor();
  };
  f["scaledSubtractFrom"] = [](Arguments &a) {
    const Tensor A = a.tensor(), B = a.tensor();
    if (a.isNumber()) {
      popops::scaledSubtractFrom(a.graph, A, B, static_cast<float>(a.number()), a.prog);
    } else {
      popops::scaledSubtractFrom(a.graph, A, B, a.tensor(), a.prog);
    }
    return Tensor();
  };
  f["iota"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    popops::iota(a.graph, t, static_cast<int>(a.number()), a.prog);
    return Tensor();
  };
  f["iotaUnsigned"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    popops::iota(a.graph, t, a.natural(), a.prog);
    return Tensor();
  };
  f["encodeOneHot"] = [](Arguments &a) {
    const Tensor indices = a.tensor();
    popops::encodeOneHot(a.graph, indices, a.tensor(), a.prog);
    return Tensor();
  };
  f["encodeOneHotWithValues"] = [](Arguments &a) {
    const Tensor indices = a.tensor(), encoded = a.tensor(), on = a.tensor();
    popops::encodeOneHot(a.graph, indices, encoded, a.prog, on, a.tensor());
    return Tensor();
  };
  f["selectScalarFromRows"] = [](Arguments &a) {
    const Tensor params = a.tensor();
    return popops::selectScalarFromRows(a.graph, params, a.tensor(), a.prog);
  };
  f["updateScalarInRows"] = [](Arguments &a) {
    const Tensor params = a.tensor();
    popops::updateScalarInRows(a.graph, params, a.tensor(), a.prog);
    return Tensor();
  };
}

inline void addSlices(harness::Functions &f) {
  f["createSliceableTensor"] = [](Arguments &a) {
    const poplar::Type type = a.type();
    const std::vector<std::size_t> shape = a.list(), dims = a.list();
    return popops::createSliceableTensor(a.graph, type, shape, dims, a.list());
  };
  f["dynamicSlice"] = [](Arguments &a) {
    const Tensor t = a.tensor(), offset = a.tensor();
    const std::vector<std::size_t> dims = a.list();
    return popops::dynamicSlice(a.graph, t, offset, dims, a.list(), a.prog, "slice");
  };
  f["dynamicSliceWithOutput"] = [](Arguments &a) {
    const Tensor t = a.tensor(), offset = a.tensor();
    const std::vector<std::size_t> dims = a.list(), sizes = a.list();
    const Tensor out = popops::createDynamicSliceOutput(a.graph, t, offset, dims, sizes);
    popops::dynamicSliceWithOutput(a.graph, out, t, offset, dims, sizes, a.prog);
    return out;
  };
  f["dynamicUpdate"] = [](Arguments &a) {
    const Tensor t = a.tensor(), s = a.tensor(), offset = a.tensor();
    const std::vector<std::size_t> dims = a.list();
    popops::dynamicUpdate(a.graph, t, s, offset, dims, a.list(), a.prog);
    return Tensor();
  };
  f["multiSlice"] = [](Arguments &a) {
    const Tensor t = a.tensor(), offsets = a.tensor();
    const std::vector<std::size_t> dims = a.list(), sizes = a.list();
    const popops::SlicePlan plan =
        popops::embedding::plan(a.graph, t.elementType(), t.dim(0), t.numElements() / t.dim(0),
                                {offsets.dim(0)}, {{"availableMemoryProportion", "0.3"}});
    poplar::OptionFlags options;
    for (const std::string &name : a.rest()) options.set(name, "true");
    return popops::multiSlice(a.graph, t, offsets, dims, sizes, a.prog, plan, options);
  };
  f["multiSliceAt"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    const std::vector<unsigned> offsets = a.list<unsigned>();
    return popops::multiSlice(a.graph, t, offsets, a.natural(), a.prog);
  };
  f["groupedMultiSlice"] = [](Arguments &a) {
    const Tensor t = a.tensor(), offsets = a.tensor();
    return popops::groupedMultiSlice(a.graph, t, offsets, {0}, {1}, a.prog, popops::SlicePlan(),
                                     {});
  };
  f["multiUpdate"] = [](Arguments &a) {
    const Tensor t = a.tensor(), s = a.tensor(), offsets = a.tensor();
    const popops::SlicePlan plan;
    const std::string op = a.word();
    if (op == "-") popops::multiUpdate(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    if (op == "max") popops::multiUpdateMax(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    if (op == "mul") popops::multiUpdateMul(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    return Tensor();
  };
  f["groupedMultiUpdate"] = [](Arguments &a) {
    const Tensor t = a.tensor(), s = a.tensor(), offsets = a.tensor();
    const popops::SlicePlan plan;
    const std::string op = a.word();
    if (op == "-") popops::groupedMultiUpdate(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    if (op == "max") {
      popops::groupedMultiUpdateMax(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    }
    if (op == "mul") {
      popops::groupedMultiUpdateMul(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    }
    return Tensor();
  };
  f["multiUpdateAdd"] = [](Arguments &a) {
    const Tensor t = a.tensor(), s = a.tensor(), offsets = a.tensor(), scale = a.tensor();
    const std::vector<std::size_t> dims = a.list();
    popops::multiUpdateAdd(a.graph, t, s, offsets, scale, dims, a.list(), a.prog,
                           popops::SlicePlan(), {});
    return Tensor();
  };
  f["multiUpdateAddAt"] = [](Arguments &a) {
    const Tensor t = a.tensor(), s = a.tensor(), scale = a.tensor();
    const std::vector<unsigned> offsets = a.list<unsigned>();
    popops::multiUpdateAdd(a.graph, t, s, offsets, scale, a.natural(), a.prog);
    return Tensor();
  };
  f["groupedMultiUpdateAdd"] = [](Arguments &a) {
    const Tensor t = a.tensor(), s = a.tensor(), offsets = a.tensor(), scale = a.tensor();
    popops::groupedMultiUpdateAdd(a.graph, t, s, offsets, scale, {0}, {1}, a.prog,
                                  popops::SlicePlan(), {});
    return Tensor();
  };
  // A table, slices and offsets of the library's own making: all lookups are of row 0.
  f["createSliceTensors"] = [](Arguments &a) {
    const std::vector<std::size_t> shape = {6, 5};
    const popops::SlicePlan plan = popops::embedding::plan(a.graph, poplar::FLOAT, 6, 5, {3}, {});
    const Tensor t =
        popops::createSliceableTensor(a.graph, poplar::FLOAT, shape, {0}, {1}, plan, {}, "table");
    const Tensor offsets = popops::createIndicesTensor(a.graph, {0}, 3, plan, {});
    const Tensor s =
        popops::createSliceTensor(a.graph, poplar::FLOAT, shape, {0}, {1}, 3, plan, {});
    const Tensor like = popops::createSliceTensor(a.graph, t, {0}, {1}, 3);
    popops::fill(a.graph, t, a.prog, 1.0f);
    popops::fill(a.graph, s, a.prog, 2.0f);
    popops::fill(a.graph, like, a.prog, 3.0f);
    popops::multiUpdate(a.graph, t, s, offsets, {0}, {1}, a.prog, plan, {});
    const Tensor looked = popops::multiSlice(a.graph, t, offsets, {0}, {1}, a.prog, plan, {});
    return poplar::concat({t.flatten(), like.flatten(), looked.flatten()});
  };
  // Variables for inputs, each filled with its number.
  f["createdInputs"] = [](Arguments &a) {
    const poplar::Type type = poplar::FLOAT;
    const std::vector<std::size_t> shape = {6, 4};
    const popops::SlicePlan plan = popops::embedding::plan(a.graph, type, 2, 6, 4, {3}, {});
    const Tensor slice = a.graph.addVariable(type, {1, 4});
    poputil::mapTensorLinearly(a.graph, slice);
    const std::vector<Tensor> inputs = {
        popops::createGatherInput(a.graph, type, shape, 0),
        popops::createGatherInput(a.graph, type, shape, shape, {0}),
        popops::createTopKInput(a.graph, type, shape,
                                popops::TopKParams(2, true, popops::SortOrder::NONE)),
        popops::createNormaliseImageInput(a.graph, type, {2, 3, 3}),
        popops::createSliceableTensorFromSlice(a.graph, slice, {0}, {6}),
        popops::createGroupedSliceableTensor(a.graph, type, 2, shape, {0}, {1}, plan, {}),
        popops::createGroupedSliceTensor(a.graph, type, 2, shape, {0}, {1}, 3, plan, {})};
    std::vector<Tensor> flat;
    for (const Tensor &input : inputs) {
      popops::fill(a.graph, input, a.prog, static_cast<float>(flat.size()));
      flat.push_back(input.flatten());
    }
    popops::createGroupedIndicesTensor(a.graph, 2, {0}, 3, plan, {});
    a.graph.setTileMapping(slice, popops::getSliceMapping(a.graph, inputs[4], {0}, {1}));
    return poplar::concat(flat);
  };
  f["gather"] = [](Arguments &a) {
    const Tensor t = a.tensor(), indices = a.tensor();
    return popops::gather(a.graph, t, indices, a.natural(), a.prog, popops::GatherParams());
  };
  f["gatherWindows"] = [](Arguments &a) {
    const Tensor t = a.tensor(), indices = a.tensor();
    const std::size_t vectors = a.natural();
    const std::vector<std::size_t> offsets = a.list(), sizes = a.list(), collapsed = a.list();
    return popops::gather(a.graph, t, indices, vectors, offsets, sizes, collapsed,
                          a.list<unsigned>(), a.prog);
  };
  f["scatter"] = [](Arguments &a) {
    const Tensor t = a.tensor(), indices = a.tensor(), updates = a.tensor();
    const std::size_t vectors = a.natural();
    const std::vector<unsigned> window = a.list<unsigned>();
    const std::vector<std::size_t> inserted = a.list();
    popops::scatter(a.graph, t, indices, updates, vectors, window, inserted, a.list<unsigned>(),
                    a.prog);
    return Tensor();
  };
  // Each update is half of the operand and itself.
  f["scatterByFunction"] = [](Arguments &a) {
    const Tensor t = a.tensor(), indices = a.tensor(), updates = a.tensor();
    const std::size_t vectors = a.natural();
    const std::vector<unsigned> window = a.list<unsigned>();
    const std::vector<std::size_t> inserted = a.list();
    popops::UpdateComputationFunc update = [](poplar::Graph &graph, Tensor &before, Tensor &given,
                                              poplar::program::Sequence &prog) {
      using namespace popops::expr;
      return popops::map(graph, _1 * Const(0.5f) + _2, {before, given}, prog);
    };
    popops::scatter(a.graph, t, indices, updates, vectors, window, inserted, a.list<unsigned>(),
                    update, a.prog);
    return Tensor();
  };
}

inline void addOrders(harness::Functions &f) {
  f["sort"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    return popops::sort(a.graph, t, a.natural(), a.prog);
  };
  f["sortInPlace"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    popops::sortInPlace(a.graph, t, a.natural(), a.prog);
    return Tensor();
  };
  f["sortKeyValue"] = [](Arguments &a) {
    const Tensor k = a.tensor(), v = a.tensor();
    return popops::sortKeyValue(a.graph, k, v, a.natural(), a.prog);
  };
  f["sortKeyValueInPlace"] = [](Arguments &a) {
    const Tensor k = a.tensor(), v = a.tensor();
    popops::sortKeyValueInPlace(a.graph, k, v, a.natural(), a.prog);
    return Tensor();
  };
  const auto topKParams = [](Arguments &a) {
    const unsigned k = a.natural();
    const bool largest = a.natural() != 0;
    const auto order = static_cast<popops::SortOrder>(a.natural());
    return popops::TopKParams(k, largest, order, true);
  };
  f["topK"] = [topKParams](Arguments &a) {
    const Tensor t = a.tensor();
    return popops::topK(a.graph, a.prog, t, topKParams(a));
  };
  f["topKKeyValue"] = [topKParams](Arguments &a) {
    const Tensor keys = a.tensor(), values = a.tensor();
    return popops::topKKeyValue(a.graph, a.prog, keys, values, topKParams(a)).second;
  };
  f["topKWithPermutation"] = [topKParams](Arguments &a) {
    const Tensor t = a.tensor();
    return popops::topKWithPermutation(a.graph, a.prog, t, topKParams(a)).second;
  };
}

inline void addLoopsAndViews(harness::Functions &f) {
  // Adds the index of each iteration to a tensor of one element.
  f["countedLoop"] = [](Arguments &a) {
    const Tensor sum = a.tensor();
    const std::size_t begin = a.natural(), end = a.natural(), step = a.natural();
    a.prog.add(popops::countedLoop(a.graph, begin, end, step, [&](const Tensor &index) {
      poplar::program::Sequence body;
      popops::addInPlace(a.graph, sum, index, body);
      return body;
    }));
    return Tensor();
  };
  // Copies rows of a tensor in reverse order, one in each iteration.
  f["countedLoopOfSlices"] = [](Arguments &a) {
    const Tensor in = a.tensor(), out = a.tensor();
    const unsigned count = static_cast<unsigned>(in.dim(0));
    a.prog.add(popops::countedLoop(a.graph, count, [&](const Tensor &index) {
      poplar::program::Sequence body;
      const Tensor row = popops::dynamicSlice(a.graph, in, index, {0}, {1}, body);
      const Tensor to = popops::sub(a.graph, count - 1, index, body);
      popops::dynamicUpdate(a.graph, out, row, to, {0}, {1}, body);
      return body;
    }));
    return Tensor();
  };
  f["addForLoopCounterVertex"] = [](Arguments &a) {
    const Tensor count = a.tensor(), limit = a.tensor();
    const int step = static_cast<int>(a.number());
    return popops::addForLoopCounterVertex(a.graph, count, limit, step, 0, a.prog, {});
  };
  f["countedForLoop"] = [](Arguments &a) {
    const Tensor sum = a.tensor(), count = a.tensor(), limit = a.tensor();
    const int begin = static_cast<int>(a.number()), step = static_cast<int>(a.number());
    poplar::program::Sequence body;
    popops::addInPlace(a.graph, sum, count, body);
    a.prog.add(popops::countedForLoop(a.graph, count, begin, limit, step, body));
    return Tensor();
  };
  const auto padding = [](Arguments &a) {
    const std::vector<std::ptrdiff_t> lower = a.list<std::ptrdiff_t>();
    return std::make_pair(lower, a.list<std::ptrdiff_t>());
  };
  f["pad"] = [padding](Arguments &a) {
    const Tensor t = a.tensor();
    const auto sides = padding(a);
    return popops::pad(a.graph, t, sides.first, sides.second, static_cast<float>(a.number()));
  };
  f["padWithTensor"] = [padding](Arguments &a) {
    const Tensor t = a.tensor(), value = a.tensor();
    const auto sides = padding(a);
    return popops::pad(a.graph, t, sides.first, sides.second, value);
  };
  f["padByType"] = [padding](Arguments &a) {
    const Tensor t = a.tensor();
    const auto sides = padding(a);
    const bool reflects = a.word() == "reflect";
    return popops::pad(t, sides.first, sides.second,
                       reflects ? popops::padding::Type::REFLECT : popops::padding::Type::EDGE);
  };
  f["regroupIfBeneficial"] = [](Arguments &a) {
    const Tensor in = a.tensor();
    return popops::rearrange::regroupIfBeneficial(a.graph, in, a.tensor(), a.prog);
  };
  f["partialTranspose"] = [](Arguments &a) {
    const ComputeSet cs = a.graph.addComputeSet();
    const Tensor result = popops::rearrange::partialTranspose(a.graph, a.tensor(), cs);
    a.prog.add(Execute(cs));
    return result;
  };
}

inline void addStatistics(harness::Functions &f) {
  f["histogram"] = [](Arguments &a) {
    const Tensor t = a.tensor(), levels = a.tensor();
    const bool absolute = a.natural() != 0;
    return popops::histogram(a.graph, t, levels, absolute, a.prog);
  };
  f["histogramWithOutput"] = [](Arguments &a) {
    const Tensor t = a.tensor(), levels = a.tensor();
    Tensor out = a.tensor();
    popops::histogram(a.graph, t, out, true, levels, false, a.prog);
    return Tensor();
  };
  f["sequenceSlice"] = [](Arguments &a) {
    const Tensor in = a.tensor(), out = a.tensor(), n = a.tensor();
    const Tensor from = a.tensor(), to = a.tensor();
    popops::sequenceSlice(a.graph, in, out, n, from, to, a.natural() != 0, a.prog);
    return Tensor();
  };
  f["splineBasis"] = [](Arguments &a) {
    const Tensor pseudo = a.tensor(), sizes = a.tensor(), open = a.tensor();
    const Tensor basis = a.tensor(), index = a.tensor();
    popops::splineBasis(a.graph, pseudo, sizes, open, basis, index, a.natural(), a.prog);
    return Tensor();
  };
  f["splineWeighting"] = [](Arguments &a) {
    const Tensor input = a.tensor(), weight = a.tensor(), basis = a.tensor();
    return popops::splineWeighting(a.graph, input, weight, basis, a.tensor(), a.prog);
  };
  f["normaliseImage"] = [](Arguments &a) {
    const Tensor image = a.tensor();
    const float scale = static_cast<float>(a.number());
    const Tensor offsets = a.tensor();
    return popops::normaliseImage(a.graph, a.prog, image, scale, offsets, a.tensor());
  };
  // The last three tensors that are added, the newest first.
  f["CircBuf"] = [](Arguments &a) {
    const std::vector<Tensor> tensors = a.tensorList();
    popops::CircBuf ring(a.graph, tensors[0].elementType(), 3, tensors[0].shape());
    for (const Tensor &t : tensors) ring.add(t, a.prog);
    std::vector<Tensor> last;
    for (unsigned i = 0; i < ring.size(); ++i) last.push_back(ring.prev(i, a.prog).expand({0}));
    return poplar::concat(last);
  };
  f["createHostSliceableTensor"] = [](Arguments &a) {
    const std::vector<std::size_t> shape = a.list();
    std::size_t offset = 2;
    popops::createHostTransferableTensor(a.graph, poplar::FLOAT, shape, true, offset);
    const auto made = popops::createHostSliceableTensor(a.graph, poplar::FLOAT, shape, true);
    popops::iota(a.graph, made.indices, static_cast<unsigned>(offset), a.prog);
    return made.indices;
  };
}

inline void addFunctions(harness::Functions &f) {
  addStatistics(f);
  addReductions(f);
  addWrites(f);
  addSlices(f);
  addOrders(f);
  addLoopsAndViews(f);
}

#endif  // TESTS_FRONTENDS_POPLAR_POPOPS_FUNCTIONS_HPP_
