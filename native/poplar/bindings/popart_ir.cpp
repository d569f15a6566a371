// The module behind `popart._internal.ir`: the classes that bindings of users' operations refer to.
//
// It is compiled at first use, as classes are shared only by modules of one version of pybind11.
#include <popart/graph.hpp>
#include <popart/ir.hpp>
#include <popart/op.hpp>
#include <popart/op/collectives/collectives.hpp>
#include <popart/opmanager.hpp>
#include <poplar/exceptions.hpp>
#include <poputil/exceptions.hpp>

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace {

namespace py = pybind11;
using popart::Graph;
using popart::Op;
using popart::Tensor;

constexpr auto kReference = py::return_value_policy::reference;

// --- Errors ---

void Raise(const char* kind, const std::exception& error) {
  const py::object type = py::module_::import("tensorflow_ipu.frontends.common.errors").attr(kind);
  PyErr_SetString(type.ptr(), error.what());
}

void Translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const popart::internal_error& error) {
    Raise("popart_internal_exception", error);
  } catch (const popart::runtime_error& error) {
    Raise("popart_runtime_error", error);
  } catch (const popart::error& error) {
    Raise("popart_exception", error);
  } catch (const poplar::runtime_error& error) {
    Raise("poplar_runtime_error", error);
  } catch (const poplar::poplar_error& error) {
    Raise("poplar_exception", error);
  } catch (const poputil::poplibs_error& error) {
    Raise("poplibs_exception", error);
  }
}

// --- Small types ---

template <typename Optional>
void BindOptional(py::module_& m, const char* name) {
  using Value = typename std::decay<decltype(*Optional())>::type;
  py::class_<Optional>(m, name)
      .def(py::init<>())
      .def(py::init<Value>())
      .def("__bool__", [](const Optional& self) { return static_cast<bool>(self); })
      .def("value", [](const Optional& self) { return *self; });
  py::implicitly_convertible<Value, Optional>();
}

// Lets functions take a member of the enumeration of the same name that Python programs have.
template <typename E>
void AcceptPython() {
  const auto convert = [](PyObject* object, PyTypeObject* type) -> PyObject* {
    const py::handle given(object);
    const py::handle wanted(reinterpret_cast<PyObject*>(type));
    if (!py::hasattr(given, "value") ||
        !py::type::handle_of(given).attr("__name__").equal(wanted.attr("__name__"))) {
      return nullptr;
    }
    PyObject* made = PyObject_CallOneArg(wanted.ptr(), given.attr("value").ptr());
    if (made == nullptr) PyErr_Clear();
    return made;
  };
  py::detail::get_type_info(typeid(E), true)->implicit_conversions.push_back(convert);
}

void BindEnums(py::module_& m) {
  py::enum_<popart::DataType> types(m, "DataType");
  for (const auto& entry : popart::getDataTypeInfoMap()) {
    types.value(entry.second.name().c_str(), entry.first);
  }
  py::enum_<popart::ExecutionContext>(m, "ExecutionContext")
      .value("Normal", popart::ExecutionContext::Normal)
      .value("AccumulateOuterFragment", popart::ExecutionContext::AccumulateOuterFragment)
      .value("WeightsFromHostFragment", popart::ExecutionContext::WeightsFromHostFragment)
      .value("WeightsToHostFragment", popart::ExecutionContext::WeightsToHostFragment)
      .value("OptimizerFromHostFragment", popart::ExecutionContext::OptimizerFromHostFragment)
      .value("Subgraph", popart::ExecutionContext::Subgraph);
  py::enum_<popart::RecomputeType>(m, "RecomputeType")
      .value("Undefined", popart::RecomputeType::Undefined)
      .value("Checkpoint", popart::RecomputeType::Checkpoint)
      .value("Recompute", popart::RecomputeType::Recompute)
      .value("Recomputed", popart::RecomputeType::Recomputed);
  py::enum_<popart::TileSet>(m, "TileSet")
      .value("Compute", popart::TileSet::Compute)
      .value("IO", popart::TileSet::IO)
      .value("Undefined", popart::TileSet::Undefined);
  py::enum_<popart::TensorType>(m, "TensorType")
      .value("ActGrad", popart::TensorType::ActGrad)
      .value("Const", popart::TensorType::Const)
      .value("Stream", popart::TensorType::Stream)
      .value("Unknown", popart::TensorType::Unknown)
      .value("Variable", popart::TensorType::Variable);
  py::enum_<popart::GradOpInType>(m, "GradOpInType")
      .value("In", popart::GradOpInType::In)
      .value("Out", popart::GradOpInType::Out)
      .value("GradOut", popart::GradOpInType::GradOut);
  py::enum_<popart::CommGroupType>(m, "CommGroupType")
      .value("All", popart::CommGroupType::All)
      .value("Consecutive", popart::CommGroupType::Consecutive)
      .value("Orthogonal", popart::CommGroupType::Orthogonal);
  py::enum_<popart::CollectiveOperator> operators(m, "CollectiveOperator");
  for (int i = 0; i < static_cast<int>(popart::CollectiveOperator::N); ++i) {
    const auto value = static_cast<popart::CollectiveOperator>(i);
    operators.value(popart::logging::format("{}", value).c_str(), value);
  }
  py::enum_<popart::ReductionType>(m, "ReductionType")
      .value("Sum", popart::ReductionType::Sum)
      .value("Mean", popart::ReductionType::Mean)
      .value("NoReduction", popart::ReductionType::NoReduction);
  AcceptPython<popart::CollectiveOperator>();
  AcceptPython<popart::CommGroupType>();
  AcceptPython<popart::DataType>();
  AcceptPython<popart::ExecutionContext>();
  AcceptPython<popart::RecomputeType>();
  AcceptPython<popart::ReductionType>();
  AcceptPython<popart::TileSet>();
}

void BindValues(py::module_& m) {
  BindOptional<popart::OptionalVGraphId>(m, "OptionalVGraphId");
  BindOptional<popart::OptionalPipelineStage>(m, "OptionalPipelineStage");
  BindOptional<popart::OptionalExecutionPhase>(m, "OptionalExecutionPhase");
  py::class_<popart::NumInputs>(m, "NumInputs")
      .def(py::init<>())
      .def(py::init<int>(), py::arg("f"))
      .def(py::init<int, int>(), py::arg("_min"), py::arg("_max"))
      .def_readwrite("min", &popart::NumInputs::min)
      .def_readwrite("max", &popart::NumInputs::max);
  py::implicitly_convertible<int, popart::NumInputs>();
  py::class_<popart::OperatorIdentifier>(m, "OperatorIdentifier")
      .def(py::init<const popart::OpDomain&, const popart::OpType&, popart::OpVersion,
                    popart::NumInputs, int>(),
           py::arg("domain"), py::arg("type"), py::arg("version"),
           py::arg("inputs") = popart::NumInputs(), py::arg("outputs") = 0)
      .def_readonly("domain", &popart::OperatorIdentifier::domain)
      .def_readonly("type", &popart::OperatorIdentifier::type)
      .def_readonly("version", &popart::OperatorIdentifier::version)
      .def_readonly("numInputs", &popart::OperatorIdentifier::numInputs)
      .def_readonly("numOutputs", &popart::OperatorIdentifier::numOutputs)
      .def("__eq__", [](const popart::OperatorIdentifier& a,
                        const popart::OperatorIdentifier& b) { return a == b; })
      .def("__lt__", [](const popart::OperatorIdentifier& a,
                        const popart::OperatorIdentifier& b) { return a < b; })
      .def("__repr__",
           [](const popart::OperatorIdentifier& id) { return popart::logging::format("{}", id); });
  py::class_<popart::ReplicaGrouping>(m, "ReplicaGrouping")
      .def(py::init<unsigned, unsigned, unsigned>(), py::arg("numReplicas"), py::arg("stride"),
           py::arg("groupSize"))
      .def("getNumReplicas", &popart::ReplicaGrouping::getNumReplicas)
      .def("getStride", &popart::ReplicaGrouping::getStride)
      .def("getGroupSize", &popart::ReplicaGrouping::getGroupSize)
      .def("getNumGroups", &popart::ReplicaGrouping::getNumGroups)
      .def("getGroupAt", &popart::ReplicaGrouping::getGroupAt)
      .def("getReplicasAt", &popart::ReplicaGrouping::getReplicasAt)
      .def("getTranspose", &popart::ReplicaGrouping::getTranspose)
      .def("__eq__", [](const popart::ReplicaGrouping& a,
                        const popart::ReplicaGrouping& b) { return a == b; })
      .def("__repr__", &popart::ReplicaGrouping::str);
  py::class_<popart::CommGroup>(m, "CommGroup")
      .def(py::init<>())
      .def(py::init<popart::CommGroupType, unsigned>(), py::arg("type"),
           py::arg("replicaGroupSize"));
  py::class_<popart::TensorInfo>(m, "TensorInfo")
      .def(py::init<popart::DataType, const popart::Shape&>())
      .def("shape", &popart::TensorInfo::shape)
      .def("metaShape", &popart::TensorInfo::metaShape)
      .def("dataType", &popart::TensorInfo::dataType)
      .def("rank", &popart::TensorInfo::rank)
      .def("nelms", &popart::TensorInfo::nelms)
      .def("data_type", &popart::TensorInfo::data_type)
      .def("data_type_lcase", &popart::TensorInfo::data_type_lcase)
      .def("__eq__",
           [](const popart::TensorInfo& a, const popart::TensorInfo& b) { return a == b; })
      .def("__repr__",
           [](const popart::TensorInfo& info) { return popart::logging::format("{}", info); });
  py::class_<popart::GradInOutMapper>(m, "GradInOutMapper")
      .def(py::init<popart::InIndex, int, popart::GradOpInType>())
      .def_readonly("iGrad", &popart::GradInOutMapper::iGrad)
      .def_readonly("iNonGrad", &popart::GradInOutMapper::iNonGrad)
      .def_readonly("type", &popart::GradInOutMapper::type);
}

// --- Graphs, tensors and ops ---

void BindGraphs(py::module_& m) {
  py::class_<popart::Scope>(m, "Scope")
      .def(py::init<>())
      .def("empty", &popart::Scope::empty)
      .def("str", &popart::Scope::str)
      .def("__truediv__", &popart::Scope::operator/);
  py::class_<popart::GraphId>(m, "GraphId")
      .def(py::init<const std::string&>())
      .def("str", &popart::GraphId::str);
  py::class_<popart::SessionOptions>(m, "SessionOptions")
      .def_readonly("replicatedGraphCount", &popart::SessionOptions::replicatedGraphCount)
      .def("getGlobalReplicationFactor", &popart::SessionOptions::getGlobalReplicationFactor);
  py::class_<popart::TopoCons>(m, "TopoCons")
      .def("insert", &popart::TopoCons::insert, py::arg("before"), py::arg("after"),
           py::arg("tied") = false);
  py::class_<popart::Ir>(m, "Ir")
      .def("getId", &popart::Ir::getId)
      .def("isTraining", &popart::Ir::isTraining)
      .def(
          "getMainGraph", [](popart::Ir& ir) -> Graph& { return ir.getMainGraph(); }, kReference)
      .def(
          "getSessionOptions",
          [](popart::Ir& ir) -> popart::SessionOptions& { return ir.getSessionOptions(); },
          kReference);
  py::class_<Graph>(m, "Graph")
      .def_property_readonly("id", [](const Graph& graph) { return graph.id; })
      .def(
          "getIr", [](Graph& graph) -> popart::Ir& { return graph.getIr(); }, kReference)
      .def(
          "getTensor", [](Graph& graph, const popart::TensorId& id) { return graph.getTensor(id); },
          kReference)
      .def("getOpIds", &Graph::getOpIds)
      .def("getOp", &Graph::getOp, kReference)
      .def("eraseOp", &Graph::eraseOp)
      .def("getScope", &Graph::getScope)
      .def("getInputIds", &Graph::getInputIds)
      .def("getOutputIds", &Graph::getOutputIds)
      .def("topoCons", [](Graph& graph) { return graph.topoCons.get(); }, kReference);
}

void BindTensors(py::module_& m) {
  py::class_<popart::Consumers>(m, "Consumers")
      .def("getOps", &popart::Consumers::getOps, kReference)
      .def("getTotal", &popart::Consumers::getTotal);
  py::class_<Tensor>(m, "Tensor")
      .def_readonly("id", &Tensor::id)
      .def_readwrite("info", &Tensor::info)
      .def_readonly("consumers", &Tensor::consumers)
      .def("str", &Tensor::str)
      .def("tensorType", &Tensor::tensorType)
      .def("tensor_type", &Tensor::tensor_type)
      .def("getProducer", &Tensor::getProducer, kReference)
      .def("hasProducer", &Tensor::hasProducer)
      .def(
          "getGraph", [](Tensor& tensor) -> Graph& { return tensor.getGraph(); }, kReference)
      .def("getIr", [](Tensor& tensor) -> popart::Ir& { return tensor.getIr(); }, kReference);
}

void BindSettings(py::module_& m) {
  using Settings = Op::Settings;
  py::class_<Settings>(m, "Settings")
      .def(py::init<Graph&, const std::string&>(), py::arg("graph"), py::arg("name"))
      .def(py::init<Graph&, const std::string&, const popart::Scope&>(), py::arg("graph"),
           py::arg("name"), py::arg("scope"))
      .def("copy", &Settings::copy)
      .def("getIr", &Settings::getIr, kReference)
      .def_readwrite("name", &Settings::name)
      .def_readwrite("scope", &Settings::scope)
      .def_readwrite("vgraphId", &Settings::vgraphId)
      .def_readwrite("pipelineStage", &Settings::pipelineStage)
      .def_readwrite("tileSet", &Settings::tileSet)
      .def_readwrite("executionContext", &Settings::executionContext)
      .def_readwrite("recomputeType", &Settings::recomputeType)
      .def_readwrite("schedulePriority", &Settings::schedulePriority)
      .def_readwrite("inferTensorMappingToFrom", &Settings::inferTensorMappingToFrom)
      .def_readwrite("debugInfoId", &Settings::debugInfoId);
}

void BindOps(py::module_& m) {
  py::class_<Op, std::shared_ptr<Op>>(m, "Op")
      .def_readonly("id", &Op::id)
      .def_readonly("opid", &Op::opid)
      .def_property_readonly("address",
                             [](Op& op) { return reinterpret_cast<std::uintptr_t>(&op); })
      .def("requiresRandomSeed", &Op::requiresRandomSeed)
      .def("hasVirtualGraphId", &Op::hasVirtualGraphId)
      .def("opType", [](const Op& op) { return op.opid.type; })
      .def("str", &Op::str)
      .def("name", &Op::name)
      .def("getName", &Op::getName)
      .def("debugName", &Op::debugName)
      .def("setup", &Op::setup)
      .def(
          "getGraph", [](Op& op) -> Graph& { return op.getGraph(); }, kReference)
      .def(
          "getIr", [](Op& op) -> popart::Ir& { return op.getIr(); }, kReference)
      .def(
          "getSettings", [](Op& op) -> Op::Settings& { return op.getSettings(); }, kReference)
      .def(
          "inTensor", [](Op& op, int index) { return op.inTensor(index); }, kReference)
      .def(
          "outTensor", [](Op& op, int index) { return op.outTensor(index); }, kReference)
      .def("inId", &Op::inId)
      .def("outId", &Op::outId)
      .def("inInfo", [](const Op& op, int index) { return op.inInfo(index); })
      .def("outInfo", [](const Op& op, int index) { return op.outInfo(index); })
      .def("inShape", &Op::inShape)
      .def("outShape", &Op::outShape)
      .def("hasInput", &Op::hasInput)
      .def("hasOutput", &Op::hasOutput)
      .def(
          "getInputTensors", [](Op& op) { return op.input->tensors(); }, kReference)
      .def(
          "getOutputTensors", [](Op& op) { return op.output->tensors(); }, kReference)
      .def(
          "getInputIndexMap", [](Op& op) { return op.input->tensorMap(); }, kReference)
      .def(
          "getOutputIndexMap", [](Op& op) { return op.output->tensorMap(); }, kReference)
      .def("connectInTensor",
           [](Op& op, int index, const std::string& id) { op.connectInTensor(index, id); })
      .def("connectOutTensor", &Op::connectOutTensor)
      .def("createAndConnectOutTensor", &Op::createAndConnectOutTensor)
      .def("disconnectInTensor", [](Op& op, int index) { op.disconnectInTensor(index); })
      .def("gradInputInfo", &Op::gradInputInfo)
      .def("gradOutToNonGradIn", &Op::gradOutToNonGradIn);
}

}  // namespace

PYBIND11_MODULE(popart_ir, m) {
  py::register_exception_translator(&Translate);
  BindEnums(m);
  BindValues(m);
  BindGraphs(m);
  BindTensors(m);
  BindSettings(m);
  BindOps(m);
  // The graph and the op at an address that libpopart's C interface has returned.
  m.def(
      "graph_at", [](std::uintptr_t address) { return reinterpret_cast<Graph*>(address); },
      kReference);
}
