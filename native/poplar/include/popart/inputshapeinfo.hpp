// Shapes of inputs.
#ifndef popart_inputshapeinfo_hpp
#define popart_inputshapeinfo_hpp

#include <popart/tensorinfo.hpp>

namespace popart {

class InputShapeInfo {
 public:
  void add(const TensorId &id, const TensorInfo &info) { infos_[id] = info; }
  const TensorInfo &get(const TensorId &id) const { return infos_.at(id); }
  bool has(const TensorId &id) const { return infos_.count(id) != 0; }

 private:
  std::map<TensorId, TensorInfo> infos_;
};

}  // namespace popart

#endif  // popart_inputshapeinfo_hpp
