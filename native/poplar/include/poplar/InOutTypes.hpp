// Fields of vertices that are connected to tensors, and arrays of state.
#ifndef poplar_InOutTypes_hpp
#define poplar_InOutTypes_hpp

#include <poplar/FieldTypes.hpp>

#endif  // poplar_InOutTypes_hpp
