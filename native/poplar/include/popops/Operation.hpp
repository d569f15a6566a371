// Operations of reductions, and their names.
#ifndef popops_Operation_hpp
#define popops_Operation_hpp

#include <popops/OperationDef.hpp>

#ifndef __POPC__
#include <poputil/VertexTemplates.hpp>

#include <istream>
#include <ostream>
#include <string>

namespace popops {

/// Reads and writes a name such as ADD. Reading another word throws poplibs_error.
std::istream &operator>>(std::istream &in, Operation &op);
std::ostream &operator<<(std::ostream &os, const Operation &op);

}  // namespace popops

namespace poputil {

template <>
struct VertexTemplateToString<popops::Operation> {
  static std::string to_string(const popops::Operation &op);
};

}  // namespace poputil
#endif

#endif  // popops_Operation_hpp
