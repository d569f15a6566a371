// Profiles as text.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {
namespace {

// A number with commas.
std::string Number(uint64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

std::string Percent(double part, double whole) {
  const int tenths = whole > 0 ? static_cast<int>(1000 * part / whole + 0.5) : 0;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
}

void Line(std::ostream& os, int depth, const std::string& name, const std::string& value) {
  constexpr size_t kColumn = 34;
  std::string text = std::string(2 * depth, ' ') + name + ":";
  if (text.size() < kColumn) text.resize(kColumn, ' ');
  os << text << " " << value << "\n";
}

bool IsSet(const OptionFlags& options, const char* name) {
  const auto option = options.find(name);
  return option != options.end() && option->second == "true";
}

void CheckOptions(const OptionFlags& options) {
  const char* const names[] = {"showExecutionSteps", "showOptimizations", "showVarStorage",
                               "showPerIpuMemoryUsage", "colours"};
  for (const auto& [name, value] : options) {
    const std::string& given = name;
    if (std::none_of(std::begin(names), std::end(names),
                     [&](const char* known) { return given == known; })) {
      throw invalid_option("A profile summary has no option '" + name + "'.");
    }
    if (value != "true" && value != "false") {
      throw invalid_option("The option '" + name + "' is true or false, not '" + value + "'.");
    }
  }
}

void PrintTarget(std::ostream& os, const ProfileValue& target) {
  os << "Target:\n";
  Line(os, 1, "Type", target["type"].asString());
  Line(os, 1, "Architecture", target["architecture"].asString());
  Line(os, 1, "Number of IPUs", Number(target["numIPUs"].asUint()));
  Line(os, 1, "Number of replicas", Number(target["numReplicas"].asUint()));
  Line(os, 1, "Tiles of a replica", Number(target["numTiles"].asUint()));
  Line(os, 1, "Memory per tile", Number(target["bytesPerTile"].asUint()) + " B");
  Line(os, 1, "Clock",
       Number(static_cast<uint64_t>(target["clockFrequency"].asDouble() / 1e6)) + " MHz");
}

void PrintCounts(std::ostream& os, const ProfileValue& graph) {
  os << "Graph:\n";
  Line(os, 1, "Number of vertices", Number(graph["numVertices"].asUint()));
  Line(os, 1, "Number of edges", Number(graph["numEdges"].asUint()));
  Line(os, 1, "Number of variables", Number(graph["numVars"].asUint()));
  Line(os, 1, "Number of compute sets", Number(graph["numComputeSets"].asUint()));
}

std::vector<uint64_t> TotalByTile(const ProfileValue& memory) {
  std::vector<uint64_t> total;
  for (const auto& [name, bytes] : memory["byTile"].asMap()) {
    total.resize(std::max(total.size(), bytes.size()));
    for (size_t t = 0; t < bytes.size(); ++t) total[t] += bytes[t].asUint();
  }
  return total;
}

void PrintPerIpu(std::ostream& os, const std::vector<uint64_t>& total, uint64_t tiles_per_ipu) {
  for (uint64_t ipu = 0; tiles_per_ipu > 0 && ipu * tiles_per_ipu < total.size(); ++ipu) {
    uint64_t bytes = 0;
    for (uint64_t t = 0; t < tiles_per_ipu; ++t) bytes += total[ipu * tiles_per_ipu + t];
    Line(os, 2, "IPU " + std::to_string(ipu), Number(bytes) + " B");
  }
}

void PrintMemory(std::ostream& os, const ProfileValue& profile, const OptionFlags& options) {
  const ProfileValue& memory = profile["memory"];
  const ProfileValue& target = profile["target"];
  const std::vector<uint64_t> total = TotalByTile(memory);
  uint64_t sum = 0;
  for (const uint64_t bytes : total) sum += bytes;
  const auto most = std::max_element(total.begin(), total.end());
  const uint64_t limit = target["bytesPerTile"].asUint();
  os << "Memory Usage:\n";
  Line(os, 1, "Total",
       Number(sum) + " B, " +
           Percent(static_cast<double>(sum), static_cast<double>(limit * total.size())) +
           " of the replica");
  if (IsSet(options, "showPerIpuMemoryUsage"))
    PrintPerIpu(os, total, target["tilesPerIpu"].asUint());
  Line(os, 1, "Largest tile",
       Number(*most) + " B on tile " + std::to_string(most - total.begin()) + " of " +
           Number(limit) + " B");
  os << "  By category (variables and constants exact, state as on the chip):\n";
  Line(os, 2, "Variables", Number(memory["byTile"]["variables"].sumUint()) + " B");
  Line(os, 2, "Constants", Number(memory["byTile"]["constants"].sumUint()) + " B");
  Line(os, 2, "Vertex state", Number(memory["byTile"]["vertexState"].sumUint()) + " B");
  if (!IsSet(options, "showVarStorage")) return;
  os << "  Variables:\n";
  for (const ProfileValue& variable : memory["variables"].asVector()) {
    Line(os, 2, variable["name"].asString(),
         Number(variable["bytes"].asUint()) + " B of " + variable["type"].asString() +
             ", tiles: " + Number(variable["tiles"].asUint()));
  }
}

void PrintSteps(std::ostream& os, const ProfileValue& graph, const ProfileValue& execution) {
  os << "Programs:\n";
  for (const ProfileValue& run : execution["runs"].asVector()) {
    os << "  Sequence: run of program " << run["program"].asUint();
    if (!run["name"].asString().empty()) os << " (" << run["name"].asString() << ")";
    os << "\n";
    for (const ProfileValue& entry : run["steps"].asVector()) {
      const ProfileValue& step = graph["steps"][entry["step"].asUint()];
      Line(os, 2, step["kind"].asString() + " " + step["name"].asString(),
           Number(entry["to"].asUint() - entry["from"].asUint()) + " cycles from " +
               Number(entry["from"].asUint()));
    }
  }
}

}  // namespace

void printGraphSummary(std::ostream& os, const ProfileValue& graphProfile,
                       const OptionFlags& options) {
  CheckOptions(options);
  PrintTarget(os, graphProfile["target"]);
  PrintCounts(os, graphProfile["graph"]);
  PrintMemory(os, graphProfile, options);
}

void printExecutionSummary(std::ostream& os, const ProfileValue& graphProfile,
                           const ProfileValue& executionProfile, const OptionFlags& options) {
  CheckOptions(options);
  const double cycles = executionProfile["cycles"].asDouble();
  const auto share = [&](const char* part) {
    return Number(executionProfile[part].asUint()) + " (" +
           Percent(executionProfile[part].asDouble(), cycles) + ")";
  };
  os << "Execution:\n";
  Line(os, 1, "Number of runs", Number(executionProfile["numRuns"].asUint()));
  Line(os, 1, "Total cycles (modelled)", Number(executionProfile["cycles"].asUint()));
  Line(os, 1, "Total compute cycles", share("compute"));
  Line(os, 1, "Total exchange cycles", share("exchange"));
  Line(os, 1, "Total sync cycles", share("sync"));
  Line(os, 1, "Time on the chip",
       std::to_string(1e6 * cycles / graphProfile["target"]["clockFrequency"].asDouble()) + " us");
  if (IsSet(options, "showExecutionSteps")) PrintSteps(os, graphProfile, executionProfile);
}

void printProfileSummary(std::ostream& os, const ProfileValue& graphProfile,
                         const ProfileValue& executionProfile, const OptionFlags& options) {
  printGraphSummary(os, graphProfile, options);
  if (executionProfile.getOrNull("cycles") != nullptr) {
    printExecutionSummary(os, graphProfile, executionProfile, options);
  }
}

}  // namespace poplar
