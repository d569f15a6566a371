// Printing from codelets.
#ifndef poplar_print_h
#define poplar_print_h

#include <cstdio>

using std::printf;

#endif  // poplar_print_h
