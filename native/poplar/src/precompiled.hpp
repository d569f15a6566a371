// Headers of the C++ library that most sources use. The Makefile compiles them once and gives the
// result to every source; a source still includes what it uses.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
