// The Python binding of a `ParameterizedOp`, with pybind11.
#ifndef popart_op_custom_parameterizedopbinder_hpp
#define popart_op_custom_parameterizedopbinder_hpp

#include <popart/op/custom/parameterizedop.hpp>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace popart {
namespace ir {
namespace op {

/// Binds an operation to a class of a module, and returns the class for further definitions.
template <class TOp>
pybind11::class_<TOp, popart::Op, std::shared_ptr<TOp>> makeParameterizedOpBindings(
    pybind11::module m, const char *name) {
  using Params = typename TOp::ParamsType;
  using In = std::map<InIndex, TensorId>;
  using Out = std::map<OutIndex, TensorId>;
  using ByIdentifier = TOp *(*)(Graph &, const In &, const Out &, const OperatorIdentifier &,
                                const Params &, const Op::Settings &);
  using ByDefault =
      TOp *(*)(Graph &, const In &, const Out &, const Params &, const Op::Settings &);
  pybind11::class_<TOp, popart::Op, std::shared_ptr<TOp>> binding(m, name);
  binding.def(pybind11::init<const OperatorIdentifier &, const Params &, const Op::Settings &>(),
              pybind11::arg("opid"), pybind11::arg("params"), pybind11::arg("settings"));
  binding.def(pybind11::init<const Params &, const Op::Settings &>(), pybind11::arg("params"),
              pybind11::arg("settings"));
  binding.def_property_readonly("params", &TOp::params);
  binding.def_static("default_opid", &TOp::defaultOperatorId);
  binding.def_static("create_op_in_graph", static_cast<ByIdentifier>(&TOp::createOpInGraph),
                     pybind11::arg("graph"), pybind11::arg("inputs"), pybind11::arg("outputs"),
                     pybind11::arg("opid"), pybind11::arg("params"), pybind11::arg("settings"),
                     pybind11::return_value_policy::reference);
  binding.def_static("create_op_in_graph", static_cast<ByDefault>(&TOp::createOpInGraph),
                     pybind11::arg("graph"), pybind11::arg("inputs"), pybind11::arg("outputs"),
                     pybind11::arg("params"), pybind11::arg("settings"),
                     pybind11::return_value_policy::reference);
  return binding;
}

}  // namespace op
}  // namespace ir
}  // namespace popart

#endif  // popart_op_custom_parameterizedopbinder_hpp
