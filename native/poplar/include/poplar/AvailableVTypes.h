// Which compact layouts of vectors the target has: none.
#ifndef poplar_AvailableVTypes_h
#define poplar_AvailableVTypes_h

#endif  // poplar_AvailableVTypes_h
