// `ParameterizedOp`: an operation whose attributes are a struct.
#ifndef popart_op_custom_parameterizedop_hpp
#define popart_op_custom_parameterizedop_hpp

#include <popart/graph.hpp>
#include <popart/op.hpp>
#include <popart/opmanager.hpp>

namespace popart {

/// `Params` has `void appendAttributes(OpSerialiserBase &) const` and, for models,
/// `static Params makeFromAttributes(const Attributes &)`.
template <class Derived, class Params>
class ParameterizedOp : public Op {
 public:
  using ParamsType = Params;

  ParameterizedOp(const OperatorIdentifier &opid, const ParamsType &params,
                  const Op::Settings &settings)
      : Op(opid, settings), m_params(params) {}
  ParameterizedOp(const ParamsType &params, const Op::Settings &settings)
      : Op(Derived::defaultOperatorId(), settings), m_params(params) {}
  /// A gradient op of a forward op.
  template <class Forward>
  ParameterizedOp(const OperatorIdentifier &opid, const ParameterizedOp<Forward, Params> &forward)
      : Op(opid, forward.getSettings()), m_params(forward.params()) {}
  template <class Forward>
  explicit ParameterizedOp(const ParameterizedOp<Forward, Params> &forward)
      : Op(Derived::defaultOperatorId(), forward.getSettings()), m_params(forward.params()) {}

  std::unique_ptr<Op> clone() const override {
    return std::unique_ptr<Op>(new Derived(static_cast<const Derived &>(*this)));
  }

  static std::unique_ptr<Derived> createOpFromCreatorInfo(const OpCreatorInfo &info) {
    return std::unique_ptr<Derived>(
        new Derived(info.opid, ParamsType::makeFromAttributes(info.attributes), info.settings));
  }
  static Derived *createOpInGraph(Graph &graph, const std::map<InIndex, TensorId> &in,
                                  const std::map<OutIndex, TensorId> &out,
                                  const OperatorIdentifier &opid, const ParamsType &params,
                                  const Op::Settings &settings) {
    return graph.createConnectedOp<Derived>(in, out, opid, params, settings);
  }
  static Derived *createOpInGraph(Graph &graph, const std::map<InIndex, TensorId> &in,
                                  const std::map<OutIndex, TensorId> &out, const ParamsType &params,
                                  const Op::Settings &settings) {
    return graph.createConnectedOp<Derived>(in, out, params, settings);
  }

  void appendAttributes(OpSerialiserBase &serialiser) const override {
    Op::appendAttributes(serialiser);
    m_params.appendAttributes(serialiser);
  }
  void appendOutlineAttributes(OpSerialiserBase &serialiser) const override {
    Op::appendOutlineAttributes(serialiser);
    m_params.appendAttributes(serialiser);
  }
  float getSubgraphValue() const override { return getHighSubgraphValue(); }
  bool requiresRandomSeed() const override { return false; }
  const ParamsType &params() const { return m_params; }

 protected:
  ParamsType m_params;
};

}  // namespace popart

#endif  // popart_op_custom_parameterizedop_hpp
