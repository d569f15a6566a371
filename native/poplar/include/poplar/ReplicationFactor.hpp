// How many replicas run a graph.
#ifndef poplar_ReplicationFactor_hpp
#define poplar_ReplicationFactor_hpp

namespace poplar {

class replication_factor {
 public:
  explicit replication_factor(unsigned value) : value_(value) {}
  operator unsigned() const { return value_; }

 private:
  unsigned value_;
};

}  // namespace poplar

#endif  // poplar_ReplicationFactor_hpp
