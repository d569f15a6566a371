// How graphs are written.
#ifndef poplar_SerializationFormat_hpp
#define poplar_SerializationFormat_hpp

namespace poplar {

enum class SerializationFormat { Binary, JSON };

}  // namespace poplar

#endif  // poplar_SerializationFormat_hpp
