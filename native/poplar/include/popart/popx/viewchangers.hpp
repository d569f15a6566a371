// Changes of the order of elements between a tensor and its user.
#ifndef popart_popx_viewchangers_hpp
#define popart_popx_viewchangers_hpp

#include <popart/detail/stl.hpp>

#include <poplar/Tensor.hpp>

#include <typeinfo>

namespace popart {
namespace popx {

class ViewChanger {
 public:
  virtual ~ViewChanger();
  virtual poplar::Tensor apply(poplar::Tensor tensor) const { return tensor; }
  virtual bool containsAllDataRegions() const { return true; }
  virtual bool operator==(const ViewChanger &other) const { return typeid(*this) == typeid(other); }
  virtual bool operator!=(const ViewChanger &other) const { return !(*this == other); }
};

class ViewChangers {
 public:
  ViewChangers() {}
  ViewChangers(std::vector<std::shared_ptr<ViewChanger>> changers)
      : changers_(std::move(changers)) {}
  poplar::Tensor apply(poplar::Tensor tensor) const {
    for (const std::shared_ptr<ViewChanger> &changer : changers_) tensor = changer->apply(tensor);
    return tensor;
  }
  bool empty() const { return changers_.empty(); }
  bool operator==(const ViewChangers &other) const;
  bool operator!=(const ViewChangers &other) const { return !(*this == other); }

 private:
  std::vector<std::shared_ptr<ViewChanger>> changers_;
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_viewchangers_hpp
