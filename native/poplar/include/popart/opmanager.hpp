// The registry of operations.
#ifndef popart_opmanager_hpp
#define popart_opmanager_hpp

#include <popart/op.hpp>
#include <popart/tensordata.hpp>

namespace popart {

/// Documents inputs, outputs and attributes of an op. Nothing is checked against it.
class OpDefinition {
 public:
  using DataTypes = std::vector<DataType>;

  struct Input {
    Input(std::string name, std::vector<DataType> types, bool constant = false)
        : name(std::move(name)), supportedTensors(std::move(types)), constant(constant) {}
    std::string name;
    std::vector<DataType> supportedTensors;
    bool constant;
  };
  struct Output {
    Output(std::string name, std::vector<DataType> types)
        : name(std::move(name)), supportedTensors(std::move(types)) {}
    std::string name;
    std::vector<DataType> supportedTensors;
  };
  struct Attribute {
    Attribute(std::string regex) : supportedValuesRegex(std::move(regex)) {}
    std::string supportedValuesRegex;
  };
  using Inputs = std::vector<Input>;
  using Outputs = std::vector<Output>;
  using Attributes = std::map<std::string, Attribute>;

  OpDefinition() {}
  OpDefinition(Inputs inputs, Outputs outputs, Attributes attributes)
      : inputs(std::move(inputs)), outputs(std::move(outputs)), attributes(std::move(attributes)) {}

  Inputs inputs;
  Outputs outputs;
  Attributes attributes;
};

using OpDefinitions = std::map<OperatorIdentifier, OpDefinition, OperatorIdentifierLess>;

/// What a factory makes an op of.
class OpCreatorInfo {
 public:
  OpCreatorInfo(const OperatorIdentifier &opid, const Op::Settings &settings,
                const Attributes &attributes, const std::vector<TensorId> &inputIds,
                const std::vector<TensorId> &outputIds)
      : opid(opid),
        settings(settings),
        attributes(attributes),
        inputIds_(inputIds),
        outputIds_(outputIds) {}

  const OperatorIdentifier &opid;
  const Op::Settings &settings;
  const Attributes &attributes;

  bool hasInputIds() const { return !inputIds_.empty(); }
  const std::vector<TensorId> &getInputIds() const { return inputIds_; }
  const std::vector<TensorId> &getOutputIds() const { return outputIds_; }
  bool hasInputTensor(int index) const;
  Tensor *getInputTensor(int index) const;
  TensorInfo &getInputTensorInfo(int index) const;
  TensorData *getInputTensorData(int index) const;
  template <typename T>
  std::vector<T> getInputData(int index, const std::set<DataType> & = {}) const {
    return getInputTensorData(index)->template copyDataAs<T>(
        static_cast<int>(getInputTensorInfo(index).nelms()));
  }
  template <typename T>
  T getInputScalarValue(int index) const {
    return getInputData<T>(index).at(0);
  }
  template <typename T>
  T getInputScalarValue(int index, T defaultValue) const {
    return hasInputTensor(index) ? getInputScalarValue<T>(index) : defaultValue;
  }
  std::string debugName() const;

 private:
  const std::vector<TensorId> &inputIds_, &outputIds_;
};

/// Factories of ops by identifier. The first that is registered for an identifier stays.
class OpManager {
 public:
  using OpFactoryFunc = std::function<std::unique_ptr<Op>(const OpCreatorInfo &)>;
  using ComplexOpFactoryFunc = std::function<Op *(const OpCreatorInfo &, Graph &)>;

  struct OpInfo {
    OpInfo(const OperatorIdentifier &id, bool isPublic, const OpDefinition &details,
           OpFactoryFunc simpleFactory)
        : id(id), isPublic(isPublic), details(details), simpleFactory(simpleFactory) {}
    OpInfo(const OperatorIdentifier &id, bool isPublic, const OpDefinition &details,
           ComplexOpFactoryFunc complexFactory)
        : id(id), isPublic(isPublic), details(details), complexFactory(complexFactory) {}
    OperatorIdentifier id;
    bool isPublic;
    OpDefinition details;
    OpFactoryFunc simpleFactory;
    ComplexOpFactoryFunc complexFactory;
  };

  static void registerOp(const OpInfo &info);
  /// Null if there is no op of exactly this version.
  static std::unique_ptr<Op> createOp(const OperatorIdentifier &opid, Graph &graph,
                                      const std::string &name = "", const Attributes &attr = {});
  /// The op of the highest version that is not above the opset's; null if there is none.
  static std::unique_ptr<Op> createOp(const OpDomain &domain, const OpType &type, int opsetVersion,
                                      Graph &graph, const std::string &name = "",
                                      const Scope &scope = {}, const Attributes &attr = {},
                                      const std::vector<TensorId> &inputIds = {},
                                      const std::vector<TensorId> &outputIds = {});
  /// Also connects it, and sets it up.
  static Op *createOpWithInputs(const OpDomain &domain, const OpType &type, int opsetVersion,
                                Graph &graph, const std::string &name, const Scope &scope,
                                const Attributes &attr, const std::vector<TensorId> &inputIds,
                                const std::vector<TensorId> &outputIds);
  static std::vector<OperatorIdentifier> getSupportedOperations(bool includePrivate);
  static OpDefinitions getSupportedOperationsDefinition(bool includePrivate);
  /// The version that a model of an opset gets; 0 if there is none.
  static OpVersion getOpVersionFromOpSet(const OpDomain &domain, const OpType &type,
                                         int opsetVersion);
};

/// Registers factories of an op: a static object of the library that has it.
template <class OP>
class OpCreator {
 public:
  OpCreator(const OpDefinitions &definitions) : OpCreator(definitions, true) {}
  // A template, as a lambda converts to bool.
  template <typename Bool,
            typename = typename std::enable_if<std::is_same<Bool, bool>::value>::type>
  OpCreator(const OpDefinitions &definitions, Bool isPublic) {
    registerAll(definitions, isPublic,
                OpManager::OpFactoryFunc([](const OpCreatorInfo &info) -> std::unique_ptr<Op> {
                  return std::unique_ptr<Op>(new OP(info.opid, info.settings));
                }));
  }
  OpCreator(const OpDefinitions &definitions, OpManager::OpFactoryFunc factory,
            bool isPublic = true) {
    registerAll(definitions, isPublic, factory);
  }
  OpCreator(const OpDefinitions &definitions, OpManager::ComplexOpFactoryFunc factory,
            bool isPublic = true) {
    registerAll(definitions, isPublic, factory);
  }

 private:
  template <typename Factory>
  void registerAll(const OpDefinitions &definitions, bool isPublic, const Factory &factory) {
    for (const auto &definition : definitions) {
      OpManager::registerOp(
          OpManager::OpInfo(definition.first, isPublic, definition.second, factory));
    }
  }
};

}  // namespace popart

#endif  // popart_opmanager_hpp
