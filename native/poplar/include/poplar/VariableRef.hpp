// Variables of a graph.
#ifndef poplar_VariableRef_hpp
#define poplar_VariableRef_hpp

#include <poplar/Interval.hpp>

#include <cstddef>

namespace poplar {

/// A variable by its number.
class VariableRef {
 public:
  explicit VariableRef(unsigned id = 0) : id(id) {}
  unsigned id;
  std::size_t hash() const { return id; }
};
inline bool operator==(VariableRef a, VariableRef b) { return a.id == b.id; }
inline bool operator!=(VariableRef a, VariableRef b) { return a.id != b.id; }
inline bool operator<(VariableRef a, VariableRef b) { return a.id < b.id; }

/// Elements of a variable.
class VariableInterval {
 public:
  VariableInterval(VariableRef var, Interval interval) : var(var), interval(interval) {}
  VariableRef var;
  Interval interval;
};
inline bool operator==(const VariableInterval &a, const VariableInterval &b) {
  return a.var == b.var && a.interval == b.interval;
}

}  // namespace poplar

#endif  // poplar_VariableRef_hpp
