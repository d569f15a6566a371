// Base classes of lowerings, and what they ask of the graph.
#include "popart/popx/opx.hpp"

#include <string>
#include <vector>

#include "popart/popx/devicex.hpp"
#include "popart/popx/op/elementwisex.hpp"
#include "poplar/VariableMappingMethod.hpp"
#include "popops/ElementWise.hpp"

namespace popart {
namespace popx {

poplar::Type popType(DataType type) {
  switch (type) {
    case DataType::FLOAT:
      return poplar::FLOAT;
    case DataType::FLOAT16:
      return poplar::HALF;
    case DataType::INT32:
      return poplar::INT;
    case DataType::UINT32:
      return poplar::UNSIGNED_INT;
    case DataType::INT16:
      return poplar::SHORT;
    case DataType::UINT16:
      return poplar::UNSIGNED_SHORT;
    case DataType::INT8:
      return poplar::SIGNED_CHAR;
    case DataType::UINT8:
    case DataType::FLOAT8_143:
    case DataType::FLOAT8_152:
      return poplar::UNSIGNED_CHAR;
    case DataType::BOOL:
      return poplar::BOOL;
    default:
      throw error("The data type {} is not supported in Poplar. Cast the tensor before the op",
                  type);
  }
}
poplar::Type popType(const TensorInfo& info) { return popType(info.dataType()); }

// --- Tensors by id ---

void PopTensors::insert(const TensorId& id, const poplar::Tensor& tensor) {
  if (!tensors_.emplace(id, tensor).second) {
    throw internal_error("poplar::Tensor {} already in map", id);
  }
}
const poplar::Tensor& PopTensors::get(const TensorId& id) const {
  const auto found = tensors_.find(id);
  if (found == tensors_.end()) throw error("no poplar::Tensor {}", id);
  return found->second;
}
const poplar::Tensor& PopTensors::getView(const TensorId& id) const {
  const auto found = views_.find(id);
  return found == views_.end() ? get(id) : found->second;
}
void PopTensors::setViewChangers(const TensorId& id, const ViewChangers& changers) {
  changers_[id] = changers;
  views_[id] = changers.apply(get(id));
}

ViewChanger::~ViewChanger() = default;
bool ViewChangers::operator==(const ViewChangers& other) const {
  if (changers_.size() != other.changers_.size()) return false;
  for (size_t i = 0; i < changers_.size(); ++i) {
    if (*changers_[i] != *other.changers_[i]) return false;
  }
  return true;
}

void LinearMapper::mapTensor(poplar::Graph& graph, poplar::Tensor& tensor) const {
  const unsigned tiles = graph.getTarget().getNumTiles();
  const std::size_t count = tensor.numElements();
  const poplar::Tensor flat = tensor.flatten();
  const std::size_t share = (count + tiles - 1) / tiles;
  for (std::size_t begin = 0, tile = 0; begin < count; begin += share, ++tile) {
    graph.setTileMapping(flat.slice(begin, std::min(count, begin + share)),
                         static_cast<unsigned>(tile));
  }
}

poplar::Tensor IrLowering::getConst(poplar::Graph& graph, const poplar::Type& type,
                                    const std::vector<size_t>& shape, double value,
                                    const poplar::DebugContext& debugContext) {
  const poplar::Tensor tensor =
      type == poplar::FLOAT || type == poplar::HALF
          ? graph.addConstant(type, shape, static_cast<float>(value), debugContext)
          : graph.addConstant(type, shape, static_cast<int>(value), debugContext);
  graph.setTileMapping(tensor, 0);
  return tensor;
}
poplar::Tensor IrLowering::getScalarVariable(poplar::Graph& graph, const poplar::Type& type,
                                             const poplar::DebugContext& debugContext) {
  const poplar::Tensor tensor = graph.addVariable(type, {}, debugContext);
  graph.setTileMapping(tensor, 0);
  return tensor;
}
unsigned IrLowering::getReplicationFactor() const {
  return static_cast<unsigned>(ir_.getSessionOptions().getReplicationFactor());
}
unsigned IrLowering::getGlobalReplicationFactor() const {
  return static_cast<unsigned>(ir_.getSessionOptions().getGlobalReplicationFactor());
}

// --- What lowerings override ---

Opx::Opx(Op* op, Devicex* device) : op_p(op), dv_p(device) {}
Opx::~Opx() = default;

void Opx::grow(poplar::program::Sequence&) const {
  throw error("adding poplar::Tensors not implemented for {}: override Opx::grow",
              op_p->debugName());
}
void Opx::grow(std::vector<poplar::program::Sequence>& programs) const {
  if (programs.empty()) programs.emplace_back();
  grow(programs.front());
}
InputCreatorType Opx::getInputCreatorType(InIndex) const { return InputCreatorType::Deadend; }
poplar::Tensor Opx::createInput(InIndex index, const poplar::DebugNameAndId& name) const {
  return createInputTensor(index, name);
}
poplar::Tensor Opx::createInputTensor(InIndex index, const poplar::DebugNameAndId& name) const {
  throw error("Opx for {} cannot create Input index {}, name: {}. Override Opx::createInput",
              op_p->debugName(), index, name.getPathName());
}
std::set<TensorId> Opx::mustExistBeforeCreate(InIndex index) const {
  throw error("Opx for {} cannot say which tensors exist before the input at index {} is created",
              op_p->debugName(), index);
}
DnfTensorIds Opx::mustExistBeforeCreateDNF(InIndex index) const {
  return {mustExistBeforeCreate(index)};
}
poplar::Tensor Opx::unwindTensorLayout(poplar::Tensor, InIndex, OutIndex) const {
  throw error("Opx for {} cannot unwind the layout of a tensor", op_p->debugName());
}
view::RegMap Opx::unwindRegion(InIndex, OutIndex) const {
  throw error("Opx for {} cannot unwind the region of a tensor", op_p->debugName());
}
bool Opx::canUnwind(InIndex in, OutIndex) const {
  const InputCreatorType type = getInputCreatorType(in);
  return type == InputCreatorType::CanUnwind || type == InputCreatorType::CanCreateOrUnwind;
}
bool Opx::createsEquiv(int, const Opx*, int) const { return false; }
bool Opx::outputCreatedExternally(OutIndex) const { return false; }
bool Opx::hasCreatorViewChangers(InIndex) const { return false; }
ViewChangers Opx::getCreatorViewChangers(InIndex) const { return {}; }

// --- Tensors ---

const poplar::Tensor& Opx::get(TensorId id) const { return dv_p->lowering().tensors().get(id); }
const poplar::Tensor& Opx::getView(TensorId id) const {
  return dv_p->lowering().tensors().getView(id);
}
void Opx::insert(TensorId id, const poplar::Tensor& tensor) const {
  dv_p->lowering().tensors().insert(id, tensor);
}
const poplar::Tensor& Opx::getInTensor(InIndex index) const { return get(inId(index)); }
const poplar::Tensor& Opx::getOutTensor(OutIndex index) const { return get(outId(index)); }
const poplar::Tensor& Opx::getInView(InIndex index) const { return getView(inId(index)); }
const poplar::Tensor& Opx::getOutView(OutIndex index) const { return getView(outId(index)); }

namespace {

// A shape without the ones before its first other dimension.
std::vector<size_t> WithoutLeadingOnes(const std::vector<size_t>& shape) {
  const auto first = std::find_if(shape.begin(), shape.end(), [](size_t dim) { return dim != 1; });
  return std::vector<size_t>(first, shape.end());
}

}  // namespace

void Opx::setOutTensor(OutIndex index, const poplar::Tensor& tensor) const {
  const TensorInfo& info = outInfo(index);
  if (WithoutLeadingOnes(tensor.shape()) != WithoutLeadingOnes(info.shape_szt())) {
    throw error(
        "The tensor {} at output {} of {} is of unexpected shape. Expected: {}. Received: "
        "{}",
        outId(index), index, op_p->debugName(), info.shape(), tensor.shape());
  }
  const poplar::Type expected = popType(getCompatibleDataType(info.dataType()));
  if (tensor.elementType() != expected) {
    throw error(
        "The tensor {} at output {} of {} is of unexpected Type. Expected: {}. Received: "
        "{}",
        outId(index), index, op_p->debugName(), expected, tensor.elementType());
  }
  insert(outId(index), tensor.reshape(info.shape_szt()));
}
bool Opx::hasInViewChangers(InIndex index) const {
  return dv_p->lowering().tensors().hasViewChangers(inId(index));
}
const ViewChangers& Opx::getInViewChangers(InIndex index) const {
  return dv_p->lowering().tensors().getViewChangers(inId(index));
}
void Opx::setOutViewChangers(OutIndex index, const ViewChangers& changers) const {
  dv_p->lowering().tensors().setViewChangers(outId(index), changers);
}

poplar::Tensor Opx::cloneNcopy(poplar::program::Sequence& program, TensorId id) const {
  return cloneNcopy(program, get(id));
}
poplar::Tensor Opx::cloneNcopy(poplar::program::Sequence& program, const poplar::Tensor& tensor,
                               const std::string name) const {
  const std::string title = name.empty() ? "clone" : name;
  const poplar::Tensor copy = graph().clone(tensor, debugContext(title));
  program.add(poplar::program::Copy(tensor, copy, false, debugContext(title)));
  return copy;
}
poplar::Tensor Opx::mapMaybeInPlace(popops::expr::BinaryOpType type, poplar::Tensor& a,
                                    poplar::Tensor& b, poplar::program::Sequence& program,
                                    const poplar::DebugContext& context,
                                    const poplar::OptionFlags& options,
                                    const std::string& name) const {
  return popops::map(graph(), type, a, b, program, {context, name}, options);
}
poplar::Tensor Opx::broadcast(const std::vector<int64_t>& shape, TensorId id) const {
  return broadcast(shape, get(id));
}
poplar::Tensor Opx::broadcast(const std::vector<int64_t>& shape, poplar::Tensor tensor) const {
  std::vector<int64_t> dims = vector_cast<int64_t>(tensor.shape());
  if (npOut(dims, shape) != shape) {
    throw error("A tensor of the shape {} does not broadcast to {}", dims, shape);
  }
  tensor = tensor.expand(std::vector<std::size_t>(shape.size() - dims.size(), 0));
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (tensor.dim(i) == 1 && shape[i] != 1) {
      tensor = tensor.broadcast(static_cast<unsigned>(shape[i]), i);
    }
  }
  return tensor;
}
poplar::Tensor Opx::getConst(const poplar::Type& type, const std::vector<size_t>& shape,
                             double value, const std::string& name) const {
  return dv_p->lowering().getConst(graph(), type, shape, value, debugContext(name));
}
poplar::Tensor Opx::getScalarVariable(const poplar::Type& type, const std::string& name) const {
  return dv_p->lowering().getScalarVariable(graph(), type, debugContext(name));
}
poplar::Tensor Opx::getZerosTensor(std::vector<size_t> shape, poplar::Type type,
                                   std::string name) const {
  return getConst(type, shape, 0.0, name);
}

// --- The graph, and names ---

poplar::Graph& Opx::graph() const {
  return op_p->hasVirtualGraphId()
             ? dv_p->lowering().getVirtualGraph(op_p->getVirtualGraphId(), op_p->settings.tileSet)
             : dv_p->lowering().graph();
}
poplar::Graph& Opx::topLevelGraph() const { return dv_p->lowering().graph(); }
VGraphId Opx::getVirtualGraphId() const {
  return op_p->hasVirtualGraphId() ? op_p->getVirtualGraphId() : unusedVGraphId;
}

namespace {

std::string PathOf(const Op& op, const std::string& name) {
  std::string path = op.getName().empty() ? op.opid.type : op.getName();
  return name.empty() ? path : path + "/" + name;
}

}  // namespace

poplar::DebugContext Opx::debugContext(const std::string name,
                                       poplar::SourceLocation location) const {
  return poplar::DebugContext(PathOf(*op_p, name), location);
}
poplar::DebugNameAndId Opx::getDebugNameAndId(const std::string name) const {
  return poplar::DebugNameAndId(PathOf(*op_p, name));
}
void Opx::wrongOp(const Op* op, const std::vector<OperatorIdentifier>& opids) {
  throw error("Cannot create opx for {} from {}: it is the lowering of another op",
              opids.empty() ? std::string("this class") : logging::format("{}", opids),
              op->debugName());
}

// --- Elementwise ops ---

EwuComputex::~EwuComputex() = default;
poplar::Tensor EwuComputex::cloneNcopy(poplar::program::Sequence& program, poplar::Graph& graph,
                                       const poplar::Tensor& tensor,
                                       const poplar::DebugNameAndId& name) const {
  const poplar::Tensor copy = graph.clone(tensor, {name});
  program.add(poplar::program::Copy(tensor, copy, false, {name}));
  return copy;
}
poplar::Tensor EwuComputex::outplace(poplar::program::Sequence& program, poplar::Graph& graph,
                                     const poplar::Tensor& tensor,
                                     const poplar::DebugNameAndId& name,
                                     const std::string& debugPrefix) const {
  const poplar::Tensor copy = cloneNcopy(program, graph, tensor, name);
  inplace(program, graph, copy, name, debugPrefix);
  return copy;
}
poplar::Tensor EwuComputex::coerceTo2D(const poplar::Tensor& tensor, int64_t axis) {
  const std::vector<std::size_t> shape = tensor.shape();
  const std::size_t rows = std::accumulate(shape.begin(), shape.begin() + axis, std::size_t{1},
                                           std::multiplies<std::size_t>());
  return tensor.reshape({rows, rows == 0 ? 0 : tensor.numElements() / rows});
}

InputCreatorType ElementWiseUnaryOpx::getInputCreatorType(InIndex) const {
  return InputCreatorType::CanUnwind;
}
poplar::Tensor ElementWiseUnaryOpx::unwindTensorLayout(poplar::Tensor tensor, InIndex,
                                                       OutIndex) const {
  return tensor;
}
view::RegMap ElementWiseUnaryOpx::unwindRegion(InIndex, OutIndex) const {
  return [](const view::Region& region) { return view::Regions(1, region); };
}
void ElementWiseUnaryOutplaceOpx::grow(poplar::program::Sequence& program) const {
  setOutTensor(0, cx->outplace(program, graph(), getInTensor(0), getDebugNameAndId(), ""));
}
void ElementWiseUnaryInplaceOpx::grow(poplar::program::Sequence& program) const {
  const poplar::Tensor tensor = getInTensor(0);
  cx->inplace(program, graph(), tensor, getDebugNameAndId(), "");
  setOutTensor(0, cx->reshape(tensor));
}

}  // namespace popx
}  // namespace popart
