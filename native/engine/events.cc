#include "engine/events.h"

#include <atomic>
#include <unordered_map>

#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

std::atomic<bool> events_enabled{false};

tensorflow::mutex events_mu(tensorflow::LINKER_INITIALIZED);

std::vector<Event>& Events() {
  static auto* events = new std::vector<Event>;
  return *events;
}

tensorflow::mutex statistics_mu(tensorflow::LINKER_INITIALIZED);

struct Entry {
  LaunchStatistics statistics;
  std::string line;  // to log after each launch; empty for none
};

std::unordered_map<std::string, Entry>& AllStatistics() {
  static auto* statistics = new std::unordered_map<std::string, Entry>;
  return *statistics;
}

}  // namespace

void EventStore::Enable(bool enabled) { events_enabled = enabled; }

bool EventStore::enabled() { return events_enabled.load(std::memory_order_relaxed); }

void EventStore::Record(EventType type, int ordinal, const std::string& executable,
                        bool variables) {
  if (!enabled()) return;
  const double now = tensorflow::Env::Default()->NowMicros() / kMicrosecondsPerSecond;
  tensorflow::mutex_lock lock(events_mu);
  Events().push_back({type, ordinal, now, executable, variables});
}

std::vector<Event> EventStore::Drain() {
  tensorflow::mutex_lock lock(events_mu);
  std::vector<Event> drained;
  drained.swap(Events());
  return drained;
}

void Statistics::Add(const std::string& executable, double seconds,
                     const UniformStatistics& uniform) {
  tensorflow::mutex_lock lock(statistics_mu);
  Entry& entry = AllStatistics()[executable];
  ++entry.statistics.launches;
  entry.statistics.seconds += seconds;
  entry.statistics.uniform = uniform;
  if (!entry.line.empty()) LOG(INFO) << entry.line;
}

void Statistics::LogLaunches(const std::string& executable, const std::string& line) {
  tensorflow::mutex_lock lock(statistics_mu);
  AllStatistics()[executable].line = line;
}

LaunchStatistics Statistics::Get(const std::string& executable) {
  tensorflow::mutex_lock lock(statistics_mu);
  const auto found = AllStatistics().find(executable);
  return found == AllStatistics().end() ? LaunchStatistics() : found->second.statistics;
}

void Statistics::Forget(const std::string& executable) {
  tensorflow::mutex_lock lock(statistics_mu);
  AllStatistics().erase(executable);
}

int64_t Statistics::count() {
  tensorflow::mutex_lock lock(statistics_mu);
  return static_cast<int64_t>(AllStatistics().size());
}

void Statistics::Clear() {
  tensorflow::mutex_lock lock(statistics_mu);
  AllStatistics().clear();
}

}  // namespace tensorflow_ipu
