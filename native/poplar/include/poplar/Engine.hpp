// Engines: they compile programs, load them onto a device and run them.
#ifndef poplar_Engine_hpp
#define poplar_Engine_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/Executable.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/ProfileValue.hpp>
#include <poplar/Program.hpp>
#include <poplar/StreamCallback.hpp>
#include <poplar/StringRef.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace pva {
class Report;
}  // namespace pva

namespace poplar {

namespace core {
struct EngineData;
}  // namespace core

using TimerTimePoint = std::chrono::steady_clock::time_point;

/// Options that may change for one run.
class RuntimeOptions {
 public:
  RuntimeOptions() {}
  /// Throws invalid_option for an option that no engine has.
  explicit RuntimeOptions(const OptionFlags &options);
};

/// Runs the programs of a graph.
class Engine {
 public:
  /// Called with a step and the number of steps.
  using ProgressFunc = std::function<void(int, int)>;

  Engine(const Graph &graph, ArrayRef<program::Program> programs,
         const OptionFlags &options = OptionFlags(), ProgressFunc progress = ProgressFunc(),
         const DebugContext &debugContext = {});
  Engine(Graph &&graph, ArrayRef<program::Program> programs,
         const OptionFlags &options = OptionFlags(), ProgressFunc progress = ProgressFunc(),
         const DebugContext &debugContext = {});
  Engine(const Graph &graph, program::Program program, const OptionFlags &options = OptionFlags(),
         ProgressFunc progress = ProgressFunc(), const DebugContext &debugContext = {});
  Engine(Graph &&graph, program::Program program, const OptionFlags &options = OptionFlags(),
         ProgressFunc progress = ProgressFunc(), const DebugContext &debugContext = {});
  explicit Engine(Executable &&executable, const OptionFlags &options = OptionFlags());
  Engine(Engine &&) noexcept;
  Engine &operator=(Engine &&) noexcept;
  ~Engine();

  void load(const Device &device);
  void prepare(const Device &device);
  void prepare(const Device &device, const RuntimeOptions &options);
  void deploy();
  void run(unsigned program = 0, const std::string &debugName = "");
  void run(unsigned program, const std::string &debugName, const RuntimeOptions &options);
  void loadAndRun(const Device &device, unsigned program = 0);
  void stop() {}

  // Reads and writes of the host.
  void writeTensor(StringRef handle, const void *begin, const void *end);
  void writeTensor(StringRef handle, const void *begin);
  template <typename T>
  void writeTensor(StringRef handle, gccs::ArrayRef<T> data) {
    writeTensor(handle, data.begin(), data.end());
  }
  void readTensor(StringRef handle, void *begin, void *end);
  void readTensor(StringRef handle, void *begin);
  template <typename T>
  void readTensor(StringRef handle, gccs::ArrayRef<T> data) {
    readTensor(handle, const_cast<T *>(data.begin()), const_cast<T *>(data.end()));
  }
  void connectStream(StringRef handle, void *begin, void *end);
  void connectStream(StringRef handle, void *begin);
  template <typename T>
  void connectStream(StringRef handle, const gccs::ArrayRef<T> &data) {
    connectStream(handle, const_cast<T *>(data.begin()), const_cast<T *>(data.end()));
  }
  void connectStreamToCallback(StringRef handle, StreamCallbackHandle callback);
  void connectStreamToCallback(StringRef handle, unsigned replica, StreamCallbackHandle callback);
  void connectHostFunction(StringRef handle, unsigned replica, HostCallbackHandle callback);
  void copyToRemoteBuffer(const void *from, StringRef handle, std::uint64_t row,
                          unsigned replica = 0);
  void copyFromRemoteBuffer(StringRef handle, void *to, std::uint64_t row, unsigned replica = 0);
  template <typename T>
  void copyToRemoteBuffer(gccs::ArrayRef<T> from, StringRef handle, std::uint64_t row,
                          unsigned replica = 0) {
    copyToRemoteBuffer(static_cast<const void *>(from.data()), handle, row, replica);
  }
  template <typename T>
  void copyFromRemoteBuffer(StringRef handle, gccs::ArrayRef<T> to, std::uint64_t row,
                            unsigned replica = 0) {
    copyFromRemoteBuffer(handle, const_cast<T *>(to.data()), row, replica);
  }
  // Simulated errors are not there: inserting one throws poplar_error.
  void insertSimulatedError(StringRef location, StringRef message);
  void eraseSimulatedError(StringRef location);
  void clearSimulatedErrors();
  std::vector<std::string> getSimulatedErrorLocations() const;
  std::vector<std::string> listStreams() const;
  OptionFlags getEngineOptions() const;
  void setPrintStream(std::ostream &stream);
  void setPrintTensorStream(std::ostream &stream);

  // Profiles. Memory and exchange are exact, cycles modelled; see docs/poplar.md.
  void printProfileSummary(std::ostream &os, const OptionFlags &options = OptionFlags());
  ProfileValue getGraphProfile();
  ProfileValue getExecutionProfile();
  /// Both, as {"graphProfile", "executionProfile"}.
  ProfileValue getProfile();
  /// Include <pva/pva.hpp> and link with -lpva to use it.
  pva::Report getReport(bool reportExecution = true);
  void resetExecutionProfile();
  void disableExecutionProfiling();
  void enableExecutionProfiling();
  void reportIntervals(std::ostream &os);

  TimerTimePoint getTimeStamp() { return std::chrono::steady_clock::now(); }
  std::string reportTiming(const TimerTimePoint &begin, const TimerTimePoint &end);

 private:
  friend struct core::Access;
  std::unique_ptr<core::EngineData> data_;
};

Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs,
                        const OptionFlags &options = OptionFlags(),
                        Engine::ProgressFunc progress = Engine::ProgressFunc(),
                        const DebugContext &debugContext = {});
Executable compileGraph(Graph &&graph, ArrayRef<program::Program> programs,
                        const OptionFlags &options = OptionFlags(),
                        Engine::ProgressFunc progress = Engine::ProgressFunc(),
                        const DebugContext &debugContext = {});

// Text of profiles.
void printGraphSummary(std::ostream &os, const ProfileValue &graphProfile,
                       const OptionFlags &options = OptionFlags());
void printExecutionSummary(std::ostream &os, const ProfileValue &graphProfile,
                           const ProfileValue &executionProfile,
                           const OptionFlags &options = OptionFlags());
void printProfileSummary(std::ostream &os, const ProfileValue &graphProfile,
                         const ProfileValue &executionProfile,
                         const OptionFlags &options = OptionFlags());

// `checkOptionFlags`: whether unknown options are errors.
Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs,
                        bool checkOptionFlags, const OptionFlags &options = OptionFlags(),
                        Engine::ProgressFunc progress = Engine::ProgressFunc(),
                        const DebugContext &debugContext = {});

/// The version of this library, and what it is made of.
StringRef versionString();
StringRef packageHash();

}  // namespace poplar

#endif  // poplar_Engine_hpp
