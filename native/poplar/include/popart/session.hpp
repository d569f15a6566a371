// Sessions. Programs run models in Python: popart.InferenceSession, TrainingSession.
#ifndef popart_session_hpp
#define popart_session_hpp

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/ir.hpp>
#include <popart/optimizer.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/stepio.hpp>

namespace popart {

class Session {
 public:
  virtual ~Session();
  void prepareDevice(bool loadEngine = true);
  void run(IStepIO &stepIo, std::string debugName = "");
};

class InferenceSession : public Session {
 public:
  ~InferenceSession() override;
  static std::unique_ptr<InferenceSession> createFromOnnxModel(
      const std::string &model, const DataFlow &dataFlow, std::shared_ptr<DeviceInfo> device,
      const InputShapeInfo &shapes = InputShapeInfo(),
      const SessionOptions &options = SessionOptions(), const Patterns &patterns = Patterns());
};

class TrainingSession : public Session {
 public:
  ~TrainingSession() override;
  static std::unique_ptr<TrainingSession> createFromOnnxModel(
      const std::string &model, const DataFlow &dataFlow, const TensorId &loss,
      const Optimizer &optimizer, std::shared_ptr<DeviceInfo> device,
      const InputShapeInfo &shapes = InputShapeInfo(),
      const SessionOptions &options = SessionOptions(), const Patterns &patterns = Patterns());
};

}  // namespace popart

#endif  // popart_session_hpp
