// Stochastic gradient descent.
#ifndef popart_sgd_hpp
#define popart_sgd_hpp

#include <popart/optimizer.hpp>

#endif  // popart_sgd_hpp
