// What replicas get of a stream.
#ifndef poplar_ReplicatedStreamMode_hpp
#define poplar_ReplicatedStreamMode_hpp

namespace poplar {

enum class ReplicatedStreamMode { REPLICATE, BROADCAST };

}  // namespace poplar

#endif  // poplar_ReplicatedStreamMode_hpp
