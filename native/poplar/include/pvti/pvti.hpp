// Marks of programs for a tracer. They have no effect.
#ifndef pvti_pvti_hpp
#define pvti_pvti_hpp

#include <string>

namespace pvti {

struct TraceChannel {
  std::string name;
  TraceChannel(const char *name) : name(name) {}
  TraceChannel(const std::string &name) : name(name) {}
};

/// Whether marks are recorded.
bool checkTracingEnabled();
bool checkTracingEnabled(const TraceChannel &channel);

class Tracepoint {
 public:
  Tracepoint(const TraceChannel *channel, const std::string &label);
  ~Tracepoint();
  Tracepoint(const Tracepoint &) = delete;
  Tracepoint &operator=(const Tracepoint &) = delete;

  static void begin(const TraceChannel *channel, const std::string &label);
  static void end(const TraceChannel *channel, const std::string &label);
  static void event(const TraceChannel *channel, const std::string &label);
};

class Series {
 public:
  void add(double value);
};

class Graph {
 public:
  explicit Graph(const std::string &name, const std::string &unit = "");
  Series addSeries(const std::string &name);
};

}  // namespace pvti

#endif  // pvti_pvti_hpp
