// Events of the engine, kept until Python reads them.
#ifndef TENSORFLOW_IPU_ENGINE_EVENTS_H_
#define TENSORFLOW_IPU_ENGINE_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tensorflow_ipu {

// Numbers as in the IpuTraceEvent.Type enumeration.
enum class EventType { kHostToDevice = 2, kDeviceToHost = 3, kLoadEngine = 4, kExecute = 5 };

struct Event {
  EventType type;
  int ordinal;
  double timestamp;        // seconds since the epoch
  std::string executable;  // its identifier
  // For transfers: true when the variables move, false when only inputs or results do.
  bool variables;
};

// The one store of engine events. Recording is off until a configuration asks for it; while off
// it costs one atomic load.
class EventStore {
 public:
  static void Enable(bool enabled);
  static bool enabled();
  static void Record(EventType type, int ordinal, const std::string& executable,
                     bool variables = false);
  static std::vector<Event> Drain();
};

// What of a program is equal on all of its replicas, so that they share it.
struct UniformStatistics {
  int64_t uniform_ops = 0;
  int64_t ops = 0;
  int64_t uniform_bytes = 0;  // of variables
  int64_t bytes = 0;
  // Of the copies of the other variables that all replicas have together.
  int64_t copied_bytes = 0;
};

// Launches of an executable and the host's wall time in them.
struct LaunchStatistics {
  int64_t launches = 0;
  double seconds = 0;
  UniformStatistics uniform;  // of the last launch
};

class Statistics {
 public:
  static void Add(const std::string& executable, double seconds, const UniformStatistics& uniform);
  // Has a line logged after each launch of an executable, until Clear.
  static void LogLaunches(const std::string& executable, const std::string& line);
  static LaunchStatistics Get(const std::string& executable);
  static void Forget(const std::string& executable);
  static void Clear();
  // Executables that have any.
  static int64_t count();
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_EVENTS_H_
