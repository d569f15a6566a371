// Text of non-linearities, for names of vertices.
#ifndef popnn_NonLinearityDefUtil_hpp
#define popnn_NonLinearityDefUtil_hpp

#include <popnn/NonLinearityDef.hpp>
#include <poputil/VertexTemplates.hpp>

#include <istream>
#include <ostream>
#include <string>

namespace popnn {

/// The name, as "RELU".
const char *asString(NonLinearityType type);
std::ostream &operator<<(std::ostream &os, NonLinearityType type);
std::istream &operator>>(std::istream &is, NonLinearityType &type);

}  // namespace popnn

namespace poputil {

template <>
struct VertexTemplateToString<popnn::NonLinearityType> {
  static std::string to_string(const popnn::NonLinearityType &type) {
    return std::string("popnn::NonLinearityType::") + popnn::asString(type);
  }
};

}  // namespace poputil

#endif  // popnn_NonLinearityDefUtil_hpp
