// The op Add.
#ifndef popart_op_add_hpp
#define popart_op_add_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class AddOp : public ElementWiseBinaryOp {
 public:
  using ElementWiseBinaryOp::ElementWiseBinaryOp;
  std::unique_ptr<Op> clone() const override { return std::unique_ptr<Op>(new AddOp(*this)); }
};

}  // namespace popart

#endif  // popart_op_add_hpp
