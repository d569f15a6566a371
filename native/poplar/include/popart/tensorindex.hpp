// Tensors of an op by index.
#ifndef popart_tensorindex_hpp
#define popart_tensorindex_hpp

#include <popart/names.hpp>

namespace popart {

class TensorIndexMap {
 public:
  void insert(int index, Tensor *tensor);
  void reset(int index, Tensor *tensor);
  void erase(int index);
  void clear();

  bool hasIndex(int index) const { return tensors_.count(index) != 0; }
  bool contains(Tensor *tensor) const { return indices_.count(tensor) != 0; }
  Tensor *tensor(int index) { return find(index); }
  const Tensor *tensor(int index) const { return find(index); }
  TensorId id(int index) const;
  const std::vector<int> &indices(Tensor *tensor) const;
  const std::map<Tensor *, std::vector<int>> &indicesMap() const { return indices_; }
  const std::map<int, Tensor *> &tensorMap() const { return tensors_; }
  std::vector<Tensor *> tensors() const;
  std::map<int, TensorId> tensorIdMap() const;
  int n() const { return static_cast<int>(tensors_.size()); }
  int minIndex() const;
  int maxIndex() const;

 private:
  Tensor *find(int index) const;
  std::map<int, Tensor *> tensors_;
  std::map<Tensor *, std::vector<int>> indices_;
};

}  // namespace popart

#endif  // popart_tensorindex_hpp
