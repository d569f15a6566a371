// Another name of popart/operatoridentifier.hpp.
#ifndef popart_opidentifier_hpp
#define popart_opidentifier_hpp

#include <popart/operatoridentifier.hpp>

#endif  // popart_opidentifier_hpp
