// What ops say of the storage that their inputs and outputs share.
#ifndef popart_alias_aliasmodel_hpp
#define popart_alias_aliasmodel_hpp

#include <popart/names.hpp>

#include <poprithms/memory/inplace/proposal.hpp>

namespace popart {

/// Values are never computed in place here, so nothing is kept.
class AliasModel {
 public:
  void insertUnaryModifier0(const Op &op);
  void insertUnaryModifier(const Op &op, InIndex index);
  void insertBinaryModifier(const Op &op);
  void insertNG2aryModifier(const Op &op, unsigned count);
  void insertViewChange(poprithms::memory::inplace::TensorId viewChanged, const Tensor &tensor,
                        bool isOutplace);
  void insertTensor(const poprithms::memory::inplace::TensorId &id, const Tensor &tensor);
  poprithms::memory::inplace::TensorId getPoprithmsTensorId(const TensorId &id) const;
  bool contains(const TensorId &id) const;

  poprithms::memory::inplace::Graph g;
};

}  // namespace popart

#endif  // popart_alias_aliasmodel_hpp
