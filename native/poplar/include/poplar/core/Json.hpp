// Values of profiles as JSON text.
#ifndef poplar_core_Json_hpp
#define poplar_core_Json_hpp

#include <poplar/ProfileValue.hpp>

#include <string>

namespace poplar {
namespace core {

std::string toJson(const ProfileValue &value);
/// Throws parse_error for text that is no JSON.
ProfileValue parseJson(const std::string &text);

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_Json_hpp
