// Printing from codelets.
#include <cstdio>
using std::printf;
