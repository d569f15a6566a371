// Identifiers of ops: domain, type and version.
#ifndef popart_operatoridentifier_hpp
#define popart_operatoridentifier_hpp

#include <popart/names.hpp>

namespace popart {

namespace Domain {
extern const OpDomain ai_onnx;
extern const OpDomain ai_onnx_ml;
extern const OpDomain ai_graphcore;
}  // namespace Domain

struct NumInputs {
  int min;
  int max;
  NumInputs() : min(0), max(0) {}
  NumInputs(int count) : min(count), max(count) {}
  NumInputs(int min, int max) : min(min), max(max) {}
};

/// An empty domain is that of ONNX.
struct OperatorIdentifier {
  OperatorIdentifier(const OpDomain &domain, const OpType &type, OpVersion version,
                     NumInputs inputs = {}, int outputs = 0)
      : domain(domain.empty() ? "ai.onnx" : domain),
        type(type),
        version(version),
        numInputs(inputs),
        numOutputs(outputs) {}

  OpDomain domain;
  OpType type;
  OpVersion version;
  NumInputs numInputs;
  int numOutputs;

  bool operator==(const OperatorIdentifier &other) const {
    return domain == other.domain && type == other.type && version == other.version;
  }
  bool operator!=(const OperatorIdentifier &other) const { return !(*this == other); }
  bool operator<(const OperatorIdentifier &other) const {
    return std::tie(domain, type, version) < std::tie(other.domain, other.type, other.version);
  }
};

struct OperatorIdentifierLess {
  bool operator()(const OperatorIdentifier &a, const OperatorIdentifier &b) const { return a < b; }
};

/// Prints `domain.type:version`.
std::ostream &operator<<(std::ostream &os, const OperatorIdentifier &identifier);

}  // namespace popart

#endif  // popart_operatoridentifier_hpp
