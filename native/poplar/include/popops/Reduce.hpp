// Reductions over dimensions.
#ifndef popops_Reduce_hpp
#define popops_Reduce_hpp

#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popops/Operation.hpp>

#include <string>
#include <vector>

namespace popops {

/// What a reduction does. With `update`, its result is combined with what the output holds. ADD,
/// SQUARE_ADD and LOG_ADD may have a scale, a scalar: the result is multiplied by it before that
/// (LOG_ADD adds it, as its results are logarithms).
struct ReduceParams {
  ReduceParams() : op(Operation::ADD), update(false), useScale(false) {}
  ReduceParams(Operation op, bool update = false) : op(op), update(update), useScale(false) {}
  ReduceParams(Operation op, bool update, poplar::Tensor scale)
      : op(op), update(update), useScale(true), scale(scale) {}

  Operation op;
  bool update;
  bool useScale;
  poplar::Tensor scale;
};

/// Reduces `in` over `dims`. The other dimensions stay in their order.
poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Type &outType,
                      const std::vector<std::size_t> &dims, ReduceParams params,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {});
/// The same with a result of the type of `in`.
poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in,
                      const std::vector<std::size_t> &dims, ReduceParams params,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {});
/// The same in compute sets: those of `css`, and new ones that are added to it.
poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Type &outType,
                      const std::vector<std::size_t> &dims, ReduceParams params,
                      std::vector<poplar::ComputeSet> &css,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {});
poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in,
                      const std::vector<std::size_t> &dims, ReduceParams params,
                      std::vector<poplar::ComputeSet> &css,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {});

/// The same into `out`, whose shape is that of the dimensions that stay.
void reduceWithOutput(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Tensor &out,
                      const std::vector<std::size_t> &dims, ReduceParams params,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {});
void reduceWithOutput(poplar::Graph &graph, const poplar::Tensor &in, const poplar::Tensor &out,
                      const std::vector<std::size_t> &dims, ReduceParams params,
                      std::vector<poplar::ComputeSet> &css,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {});

/// One of several reductions.
struct SingleReduceOp {
  SingleReduceOp(poplar::Tensor in, std::vector<std::size_t> dims, ReduceParams params,
                 poplar::Type outType, std::string debugName = "")
      : in(in),
        dims(dims),
        params(params),
        useOutType(true),
        outType(outType),
        debugName(debugName) {}
  SingleReduceOp(poplar::Tensor in, std::vector<std::size_t> dims, ReduceParams params,
                 std::string debugName = "")
      : in(in),
        dims(dims),
        params(params),
        useOutType(false),
        outType(in.elementType()),
        debugName(debugName) {}

  poplar::Tensor in;
  std::vector<std::size_t> dims;
  ReduceParams params;
  bool useOutType;
  poplar::Type outType;
  std::string debugName;
};

/// Makes several reductions. `outputs` is empty, and is filled with new tensors; or it has one for
/// each.
void reduceMany(poplar::Graph &graph, const std::vector<SingleReduceOp> &reductions,
                std::vector<poplar::Tensor> &outputs, poplar::program::Sequence &prog,
                const poplar::DebugContext &debugContext = {},
                const poplar::OptionFlags &options = {});

}  // namespace popops

#endif  // popops_Reduce_hpp
