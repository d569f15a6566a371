// Scopes of names.
#ifndef popart_scope_hpp
#define popart_scope_hpp

#include <popart/names.hpp>

namespace popart {

class Scope {
 public:
  bool empty() const { return names_.empty(); }
  void pop() { names_.pop_back(); }
  std::string str() const;
  Scope operator/(const std::string &name) const;
  bool operator==(const Scope &other) const { return names_ == other.names_; }
  bool operator!=(const Scope &other) const { return names_ != other.names_; }
  size_t depth() const { return names_.size(); }
  const std::vector<std::string> &getScopeNames() const { return names_; }

 private:
  std::vector<std::string> names_;
};

std::ostream &operator<<(std::ostream &os, const Scope &scope);

}  // namespace popart

#endif  // popart_scope_hpp
