// Patterns: rewrites of parts of graphs.
#ifndef popart_patterns_pattern_hpp
#define popart_patterns_pattern_hpp

#include <popart/op.hpp>

namespace popart {

class Pattern {
 public:
  Pattern() {}
  virtual ~Pattern();
  const std::string &getPatternName() const;
  void setPatternName(const std::string &name) { name_ = name; }

 protected:
  std::string getReplacementOpName(Op *op, const std::string &name) const;
  void transferBaseProperties(const Op *from, Op *to) const;

 private:
  std::string name_;
};

/// A rewrite of an op and its neighbours, before ops are computed in place.
class PreAliasPattern : public Pattern {
 public:
  PreAliasPattern() {}
  ~PreAliasPattern() override;
  virtual bool matches(Op *op) const = 0;
  virtual std::vector<const Tensor *> touches(Op *op) const = 0;
  virtual bool apply(Op *op) const = 0;
  bool touchesAnchored(Op *op) const;
  std::unique_ptr<Op> makeReplacementOp(const OperatorIdentifier &opid, Op *oldOp,
                                        const std::string &name = "") const;
  Op *makeReplacementOpInIr(const OperatorIdentifier &opid, Op *oldOp,
                            const std::string &name = "") const;
};

}  // namespace popart

#endif  // popart_patterns_pattern_hpp
