// Constants of tiles, by the name of the chip's headers.
#ifndef poplar_arch_gc_tile_defines_h
#define poplar_arch_gc_tile_defines_h

#include <poplar/TileConstants.hpp>

#endif  // poplar_arch_gc_tile_defines_h
