// Debug information of tensors.
#ifndef popart_tensordebuginfo_hpp
#define popart_tensordebuginfo_hpp

#include <popart/debugcontext.hpp>

#endif  // popart_tensordebuginfo_hpp
