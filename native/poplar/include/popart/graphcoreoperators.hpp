// Identifiers of ops of the domain ai.graphcore.
#ifndef popart_graphcoreoperators_hpp
#define popart_graphcoreoperators_hpp

#include <popart/operators.hpp>

#endif  // popart_graphcoreoperators_hpp
