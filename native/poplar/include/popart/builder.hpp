// Builders of models. Programs build models in Python: popart.Builder.
#ifndef popart_builder_hpp
#define popart_builder_hpp

#include <popart/debugcontext.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/tensorinfo.hpp>
#include <popart/vendored/any.hpp>

namespace popart {

class Builder {
 public:
  static std::unique_ptr<Builder> create();
  TensorId addInputTensor(const TensorInfo &info, const DebugContext &debugContext = {});
  void addOutputTensor(const TensorId &id);
  std::vector<TensorId> customOp(const OperatorIdentifier &opid, int opsetVersion,
                                 const std::vector<TensorId> &inputs, unsigned numOutputs,
                                 const std::map<std::string, popart::any> &attributes,
                                 const DebugContext &debugContext = {});
  std::string getModelProto() const;
};

}  // namespace popart

#endif  // popart_builder_hpp
