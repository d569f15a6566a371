// Names of graphs.
#ifndef popart_graphid_hpp
#define popart_graphid_hpp

#include <popart/names.hpp>

namespace popart {

class GraphId {
 public:
  GraphId() = delete;
  GraphId(const std::string &id) : id_(id) {}
  static const GraphId &root();
  const std::string &str() const { return id_; }
  bool operator==(const GraphId &other) const { return id_ == other.id_; }
  bool operator!=(const GraphId &other) const { return id_ != other.id_; }
  bool operator<(const GraphId &other) const { return id_ < other.id_; }

 private:
  std::string id_;
};

std::ostream &operator<<(std::ostream &os, const GraphId &id);

}  // namespace popart

#endif  // popart_graphid_hpp
