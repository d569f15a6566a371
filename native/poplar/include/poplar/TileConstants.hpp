// Constants of tiles.
#ifndef poplar_TileConstants_hpp
#define poplar_TileConstants_hpp

#define CTXT_WORKERS 6

#endif  // poplar_TileConstants_hpp
