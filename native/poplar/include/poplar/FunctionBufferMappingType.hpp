// Where a function is kept.
#ifndef poplar_FunctionBufferMappingType_hpp
#define poplar_FunctionBufferMappingType_hpp

namespace poplar {

enum class FunctionBufferMappingType { REMOTE };

}  // namespace poplar

#endif  // poplar_FunctionBufferMappingType_hpp
