// Optimizers.
#ifndef popart_optimizer_hpp
#define popart_optimizer_hpp

#include <popart/names.hpp>

namespace popart {

class Optimizer {
 public:
  virtual ~Optimizer();
};

class ConstSGD : public Optimizer {
 public:
  explicit ConstSGD(float learningRate, float weightDecay = 0, float lossScaling = 1);
  ~ConstSGD() override;
};

}  // namespace popart

#endif  // popart_optimizer_hpp
