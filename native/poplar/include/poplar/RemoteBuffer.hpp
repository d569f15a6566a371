// Rows of elements in memory of the host.
#ifndef poplar_RemoteBuffer_hpp
#define poplar_RemoteBuffer_hpp

#include <poplar/DataStream.hpp>

#endif  // poplar_RemoteBuffer_hpp
