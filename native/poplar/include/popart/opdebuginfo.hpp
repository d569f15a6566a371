// Debug information of ops.
#ifndef popart_opdebuginfo_hpp
#define popart_opdebuginfo_hpp

#include <popart/debugcontext.hpp>

#endif  // popart_opdebuginfo_hpp
