// Data of any type.
#ifndef popart_voiddata_hpp
#define popart_voiddata_hpp

#include <popart/tensorinfo.hpp>

namespace popart {

struct ConstVoidData {
  ConstVoidData() {}
  ConstVoidData(const void *data, const TensorInfo &info) : data(data), info(info) {}
  const void *data = nullptr;
  TensorInfo info;
};

struct MutableVoidData {
  void *data = nullptr;
  TensorInfo info;
};

}  // namespace popart

#endif  // popart_voiddata_hpp
