// Types of codelets.
#ifndef poplar_ipudef_h
#define poplar_ipudef_h

#include <poplar/VectorTypes.hpp>

#endif  // poplar_ipudef_h
