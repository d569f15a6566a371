// Arrays of the host.
#ifndef popart_iarray_hpp
#define popart_iarray_hpp

#include <popart/tensorinfo.hpp>

namespace popart {

class IArray {
 public:
  virtual ~IArray();
  virtual void *data() = 0;
  virtual DataType dataType() const = 0;
  virtual std::size_t rank() const = 0;
  virtual int64_t dim(size_t index) const = 0;
  virtual std::size_t nelms() const = 0;
  virtual const Shape shape() const = 0;
};

}  // namespace popart

#endif  // popart_iarray_hpp
