// Schemas of operators, as libraries of operations register them. Only the inference of types and
// shapes is used: the builder of models calls it.
#ifndef onnx_defs_schema_h
#define onnx_defs_schema_h

#include <onnx/defs/shape_inference.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ONNX_NAMESPACE {

using OperatorSetVersion = int;

constexpr const char *ONNX_DOMAIN = "";
constexpr const char *AI_ONNX_ML_DOMAIN = "ai.onnx.ml";

/// The description of an operator, of which the name, the version and the inference are kept.
class OpSchema {
 public:
  enum FormalParameterOption : uint8_t { Single = 0, Optional = 1, Variadic = 2 };

  OpSchema() {}
  OpSchema(std::string name, std::string file, int line)
      : name_(std::move(name)), file_(std::move(file)), line_(line) {}

  OpSchema &SetName(std::string name) {
    name_ = std::move(name);
    return *this;
  }
  OpSchema &SetDomain(std::string domain) {
    domain_ = std::move(domain);
    return *this;
  }
  OpSchema &SinceVersion(OperatorSetVersion version) {
    version_ = version;
    return *this;
  }
  OpSchema &SetLocation(std::string file, int line) {
    file_ = std::move(file);
    line_ = line;
    return *this;
  }
  OpSchema &SetDoc(const std::string &) { return *this; }
  OpSchema &Input(int, std::string, const std::string &, std::string,
                  FormalParameterOption = Single, bool = true, int = 1) {
    return *this;
  }
  OpSchema &Output(int, std::string, const std::string &, std::string,
                   FormalParameterOption = Single, bool = true, int = 1) {
    return *this;
  }
  template <typename... Args>
  OpSchema &Attr(std::string, std::string, const Args &...) {
    return *this;
  }
  OpSchema &TypeConstraint(std::string, std::vector<std::string>, std::string) { return *this; }
  OpSchema &TypeAndShapeInferenceFunction(InferenceFunction function) {
    inference_ = std::move(function);
    return *this;
  }

  const std::string &Name() const { return name_; }
  const std::string &domain() const { return domain_; }
  OperatorSetVersion SinceVersion() const { return version_; }
  const InferenceFunction &GetTypeAndShapeInferenceFunction() const { return inference_; }

 private:
  std::string name_, domain_, file_;
  int line_ = 0;
  OperatorSetVersion version_ = 1;
  InferenceFunction inference_;
};

class OpSchemaRegistry {
 public:
  /// Versions of domains. Any version is taken.
  class DomainToVersionRange {
   public:
    static DomainToVersionRange &Instance();
    void AddDomainToVersion(const std::string &domain, int minimum, int maximum, int = -1);
    const std::unordered_map<std::string, std::pair<int, int>> &Map() const { return map_; }

   private:
    std::unordered_map<std::string, std::pair<int, int>> map_;
  };
};

/// Registers a schema: the inference of the shapes of an operator.
void RegisterSchema(OpSchema schema, int opsetVersion = 0, bool failDuplicate = true);

template <typename T>
OpSchema GetOpSchema();

struct OpSchemaRegisterOnce {
  OpSchemaRegisterOnce(OpSchema &schema) { RegisterSchema(schema); }
  OpSchemaRegisterOnce(OpSchema &&schema) { RegisterSchema(std::move(schema)); }
};

}  // namespace ONNX_NAMESPACE

#define ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(domain, version, name) name##_##domain##_ver##version

#define ONNX_OPERATOR_SET_SCHEMA_EX(name, domain, domain_str, version, dbg_included, impl) \
  class ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(domain, version, name);                        \
  template <>                                                                              \
  OpSchema GetOpSchema<ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(domain, version, name)>() {     \
    return (impl)                                                                          \
        .SetName(#name)                                                                    \
        .SetDomain(domain_str)                                                             \
        .SinceVersion(version)                                                             \
        .SetLocation(__FILE__, __LINE__);                                                  \
  }

#endif  // onnx_defs_schema_h
