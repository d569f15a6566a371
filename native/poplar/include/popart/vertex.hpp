// Vertices of the graph of ops.
#ifndef popart_vertex_hpp
#define popart_vertex_hpp

#include <popart/names.hpp>

namespace popart {

enum class PathToLoss { Undefined, Yes, No };
enum class PathFromLoss { Undefined, Yes, No };
enum class ScheduledPreLoss { Undefined, Yes, No };

class Vertex {
 public:
  Vertex();
  Vertex(const Vertex &);
  Vertex &operator=(const Vertex &) = delete;
  virtual ~Vertex();
  virtual std::string str() const = 0;

  PathToLoss toLoss = PathToLoss::Undefined;
  PathFromLoss fromLoss = PathFromLoss::Undefined;
  ScheduledPreLoss scheduledPreLoss = ScheduledPreLoss::Undefined;
};

}  // namespace popart

#endif  // popart_vertex_hpp
