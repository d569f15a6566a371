// Whether an op can make the tensor of one of its inputs.
#ifndef popart_popx_inputcreatortype_hpp
#define popart_popx_inputcreatortype_hpp

#include <ostream>

namespace popart {
namespace popx {

enum class InputCreatorType {
  CanCreate = 0,
  CanUnwind,
  CanCreateOrUnwind,
  Deadend,
  CanDelegate,
  CanDelegateOrUnwind
};

std::ostream &operator<<(std::ostream &os, const InputCreatorType &type);

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_inputcreatortype_hpp
