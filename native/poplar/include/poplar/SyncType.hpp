// Who waits for whom: the tiles of an IPU, of a group, of all.
#ifndef poplar_SyncType_hpp
#define poplar_SyncType_hpp

namespace poplar {

enum class SyncType { INTERNAL, EXTERNAL, GLOBAL };

}  // namespace poplar

#endif  // poplar_SyncType_hpp
