// Orders of ops that their tensors do not give.
#ifndef popart_topocons_hpp
#define popart_topocons_hpp

#include <popart/names.hpp>

namespace popart {

class TopoCons {
 public:
  void insert(Op *before, Op *after, bool tied = false);
  bool contains(Op *before, Op *after) const;
  void remove(Op *op);
  std::vector<Op *> getBefores(Op *after) const;
  std::vector<Op *> getAfters(Op *before) const;

 private:
  std::set<std::pair<Op *, Op *>> order_;
};

}  // namespace popart

#endif  // popart_topocons_hpp
