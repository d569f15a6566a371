// The host side of PopART in C++. Programs have it in Python; here it is declared for operations
// that include its headers, and refuses calls.
#include "popart/builder.hpp"
#include "popart/error.hpp"
#include "popart/operators.hpp"
#include "popart/session.hpp"

namespace popart {
namespace {

[[noreturn]] void UsePython(const char* what, const char* python) {
  throw internal_error("{} runs in Python only: use {} there", what, python);
}

}  // namespace

IArray::~IArray() = default;
IStepIO::~IStepIO() = default;
StepIO::~StepIO() = default;
Optimizer::~Optimizer() = default;
ConstSGD::ConstSGD(float, float, float) {}
ConstSGD::~ConstSGD() = default;
DeviceInfo::~DeviceInfo() = default;
Session::~Session() = default;
InferenceSession::~InferenceSession() = default;
TrainingSession::~TrainingSession() = default;

DeviceManager& DeviceManager::createDeviceManager() {
  static DeviceManager manager;
  return manager;
}
std::shared_ptr<DeviceInfo> DeviceManager::createIpuModelDevice(
    const std::map<std::string, std::string>&) {
  return std::make_shared<DeviceInfo>();
}
std::shared_ptr<DeviceInfo> DeviceManager::acquireAvailableDevice(int, int) {
  return std::make_shared<DeviceInfo>();
}

std::unique_ptr<Builder> Builder::create() { UsePython("Builder", "popart.Builder"); }
TensorId Builder::addInputTensor(const TensorInfo&, const DebugContext&) {
  UsePython("Builder", "popart.Builder");
}
void Builder::addOutputTensor(const TensorId&) { UsePython("Builder", "popart.Builder"); }
std::vector<TensorId> Builder::customOp(const OperatorIdentifier&, int,
                                        const std::vector<TensorId>&, unsigned,
                                        const std::map<std::string, popart::any>&,
                                        const DebugContext&) {
  UsePython("Builder", "popart.Builder");
}
std::string Builder::getModelProto() const { UsePython("Builder", "popart.Builder"); }

void Session::prepareDevice(bool) { UsePython("Session", "popart.InferenceSession"); }
void Session::run(IStepIO&, std::string) { UsePython("Session", "popart.InferenceSession"); }
std::unique_ptr<InferenceSession> InferenceSession::createFromOnnxModel(
    const std::string&, const DataFlow&, std::shared_ptr<DeviceInfo>, const InputShapeInfo&,
    const SessionOptions&, const Patterns&) {
  UsePython("InferenceSession", "popart.InferenceSession");
}
std::unique_ptr<TrainingSession> TrainingSession::createFromOnnxModel(
    const std::string&, const DataFlow&, const TensorId&, const Optimizer&,
    std::shared_ptr<DeviceInfo>, const InputShapeInfo&, const SessionOptions&, const Patterns&) {
  UsePython("TrainingSession", "popart.TrainingSession");
}

namespace Onnx {

#define POPART_IDENTIFIER(NAME, TYPE, VERSION) \
  const OperatorIdentifier NAME("ai.onnx", TYPE, VERSION)

POPART_IDENTIFIER(AiOnnx::OpSet9::Add, "Add", 7);
POPART_IDENTIFIER(AiOnnx::OpSet9::Identity, "Identity", 1);
POPART_IDENTIFIER(AiOnnx::OpSet9::MatMul, "MatMul", 9);
POPART_IDENTIFIER(AiOnnx::OpSet9::Mul, "Mul", 7);
POPART_IDENTIFIER(AiOnnx::OpSet9::Neg, "Neg", 6);
POPART_IDENTIFIER(AiOnnx::OpSet9::Relu, "Relu", 6);
POPART_IDENTIFIER(AiOnnx::OpSet9::Reshape, "Reshape", 5);
POPART_IDENTIFIER(AiOnnx::OpSet9::Sqrt, "Sqrt", 6);
POPART_IDENTIFIER(Operators::Add_7, "Add", 7);
POPART_IDENTIFIER(Operators::Identity_1, "Identity", 1);
POPART_IDENTIFIER(Operators::MatMul_9, "MatMul", 9);
POPART_IDENTIFIER(Operators::Mul_7, "Mul", 7);
POPART_IDENTIFIER(Operators::Neg_6, "Neg", 6);
POPART_IDENTIFIER(Operators::Relu_6, "Relu", 6);
POPART_IDENTIFIER(Operators::Reshape_5, "Reshape", 5);
POPART_IDENTIFIER(Operators::Sqrt_6, "Sqrt", 6);

#undef POPART_IDENTIFIER

const OperatorIdentifier CustomOperators::L1("ai.graphcore", "L1", 1);
const OperatorIdentifier GradOperators::IdentityGrad("ai.graphcore", "IdentityGrad", 1);
const OperatorIdentifier GradOperators::ReluGrad("ai.graphcore", "ReluGrad", 1);

}  // namespace Onnx
}  // namespace popart
