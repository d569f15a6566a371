// Transforms: rewrites of whole graphs.
#ifndef popart_transforms_transform_hpp
#define popart_transforms_transform_hpp

#include <popart/names.hpp>

namespace popart {

class Graph;

class Transform {
 public:
  Transform() {}
  virtual ~Transform();
  virtual bool apply(Graph &graph) const = 0;
  virtual std::size_t getId() const = 0;
  virtual std::string getName() const = 0;

  static bool registerTransform(Transform *transform);
  static void applyTransform(std::size_t id, Graph &graph);
  static std::size_t getIdFromName(const std::string &name);
  static bool isRegistered(const std::string &name);
};

}  // namespace popart

#endif  // popart_transforms_transform_hpp
