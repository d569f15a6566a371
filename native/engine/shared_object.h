// What the file of a shared library says of itself.
#ifndef TENSORFLOW_IPU_ENGINE_SHARED_OBJECT_H_
#define TENSORFLOW_IPU_ENGINE_SHARED_OBJECT_H_

#include <string>
#include <vector>

namespace tensorflow_ipu {

// The dynamic section of a library, of which the loader takes what else to load.
struct DynamicSection {
  // Names of the libraries that it needs.
  std::vector<std::string> needed;
  // Its names of symbols and libraries, each with a null character behind it.
  std::string names;
};

// Reads it from the contents of a file; empty for files that are no 64-bit libraries.
DynamicSection ReadDynamicSection(const std::string& contents);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_SHARED_OBJECT_H_
