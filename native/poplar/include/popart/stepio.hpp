// Data of a step of a session.
#ifndef popart_stepio_hpp
#define popart_stepio_hpp

#include <popart/iarray.hpp>
#include <popart/voiddata.hpp>

namespace popart {

class IStepIO {
 public:
  virtual ~IStepIO();
};

class StepIO : public IStepIO {
 public:
  StepIO(const std::map<TensorId, IArray &> &inputs, const std::map<TensorId, IArray &> &outputs)
      : inputs_(inputs), outputs_(outputs) {}
  ~StepIO() override;

 private:
  std::map<TensorId, IArray &> inputs_, outputs_;
};

}  // namespace popart

#endif  // popart_stepio_hpp
