// Plans of slices.
#ifndef popart_popx_op_sliceplanx_hpp
#define popart_popx_op_sliceplanx_hpp

#include <popart/popx/opx.hpp>

#endif  // popart_popx_op_sliceplanx_hpp
