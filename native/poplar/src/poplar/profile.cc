#include "profile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "access.h"
#include "engine_options.h"
#include "poplar/Engine.hpp"
#include "poplar/core/Json.hpp"
#include "poplar/exceptions.hpp"
#include "target_data.h"

namespace poplar::core {
namespace {

using Map = ProfileValue::Map;
using Vector = ProfileValue::Vector;

constexpr const char* kFormat = "tensorflow_ipu poplar profile";
constexpr int kVersion = 1;

template <typename T>
ProfileValue List(const std::vector<T>& values) {
  return Vector(values.begin(), values.end());
}

std::string Directory(const OptionFlags& options) {
  const auto option = options.find("autoReport.directory");
  return option == options.end() ? "." : option->second;
}

// An option of autoReport: `all` switches on what is not switched off.
bool Reports(const OptionFlags& options, const char* name) {
  return OptionIs(options, name, "true") ||
         (OptionIs(options, "autoReport.all", "true") && !OptionIs(options, name, "false"));
}

ProfileValue TargetProfile(const ExecutableData& code) {
  const Target& target = code.target;
  return Map{{"type", toString(target.getTargetType())},
             {"architecture", target.getTargetArchString()},
             {"numIPUs", target.getNumIPUs() * code.replicas},
             {"tilesPerIpu", target.getTilesPerIPU()},
             {"numTiles", target.getNumTiles()},
             {"numReplicas", code.replicas},
             {"workers", target.getNumWorkerContexts()},
             {"bytesPerTile", target.getBytesPerTile()},
             {"clockFrequency", target.getTileClockFrequency()}};
}

ProfileValue VariablesProfile(const ProfileData& profile) {
  Vector list;
  for (const VariableProfile& variable : profile.largest_variables) {
    list.push_back(Map{{"name", variable.name},
                       {"type", variable.type},
                       {"elements", variable.elements},
                       {"bytes", variable.bytes},
                       {"tiles", variable.tiles},
                       {"constant", variable.constant}});
  }
  return list;
}

ProfileValue ComputeSetsProfile(const ProfileData& profile) {
  Vector list;
  for (const ComputeSetProfile& set : profile.used_compute_sets) {
    Map vertices;
    uint64_t count = 0;
    for (const auto& [type, number] : set.vertices) {
      vertices[type] = number;
      count += number;
    }
    list.push_back(Map{{"name", set.name},
                       {"vertices", vertices},
                       {"numVertices", count},
                       {"estimated", set.estimated},
                       {"cyclesByTile", List(set.cycles_by_tile)}});
  }
  return list;
}

ProfileValue StepsProfile(const ProfileData& profile) {
  Vector list;
  for (const StepProfile& step : profile.steps) {
    list.push_back(Map{{"kind", step.kind},
                       {"name", step.name},
                       {"compute", step.compute},
                       {"exchange", step.exchange},
                       {"sync", step.sync},
                       {"bytes", step.bytes}});
  }
  return list;
}

// Writes CBOR of text and maps, which is all that names need.
void WriteCbor(const ProfileValue& value, std::string* out) {
  const auto head = [&](unsigned kind, uint64_t count) {
    *out += static_cast<char>(kind << 5 | 27);  // a count of 8 bytes follows
    for (int shift = 56; shift >= 0; shift -= 8) *out += static_cast<char>(count >> shift & 0xff);
  };
  switch (value.type()) {
    case ProfileValue::Type::BOOL:
      *out += static_cast<char>(value.asBool() ? 0xf5 : 0xf4);
      return;
    case ProfileValue::Type::NUMBER:
      head(0, value.asUint());
      return;
    case ProfileValue::Type::STRING:
      head(3, value.asString().size());
      *out += value.asString();
      return;
    case ProfileValue::Type::VECTOR:
      head(4, value.size());
      for (const ProfileValue& item : value.asVector()) WriteCbor(item, out);
      return;
    case ProfileValue::Type::MAP:
      head(5, value.size());
      for (const auto& [key, item] : value.asMap()) {
        WriteCbor(key, out);
        WriteCbor(item, out);
      }
  }
}

void WriteFile(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary);
  file << contents;
  file.close();
  if (!file) {
    throw poplar_error("The report '" + path.string() + "' cannot be written: " +
                       std::strerror(errno) + ". See the option autoReport.directory.");
  }
}

}  // namespace

ProfileValue GraphProfileOf(const ExecutableData& code) {
  const ProfileData& p = code.profile;
  return Map{{"target", TargetProfile(code)},
             {"graph", Map{{"numVertices", p.vertices},
                           {"numEdges", p.edges},
                           {"numVars", p.variables},
                           {"numComputeSets", p.compute_sets}}},
             {"memory", Map{{"byTile", Map{{"variables", List(p.variable_bytes)},
                                           {"constants", List(p.constant_bytes)},
                                           {"vertexState", List(p.vertex_bytes)}}},
                            {"variables", VariablesProfile(p)}}},
             {"vertices", Map{{"byTile", List(p.vertex_counts)}}},
             {"exchange", Map{{"bytesByTile", List(p.exchange_bytes)}}},
             {"computeSets", ComputeSetsProfile(p)},
             {"steps", StepsProfile(p)}};
}

ProfileValue ExecutionProfileOf(const EngineData& engine) {
  const ExecutionProfile& execution = engine.execution;
  uint64_t compute = 0, exchange = 0, sync = 0;
  const std::vector<StepProfile>& steps = engine.code->profile.steps;
  for (size_t s = 0; s < steps.size(); ++s) {
    compute += steps[s].compute * execution.counts[s];
    exchange += steps[s].exchange * execution.counts[s];
    sync += steps[s].sync * execution.counts[s];
  }
  Vector runs;
  for (const ExecutionProfile::Run& run : execution.runs) {
    Vector entries;
    for (size_t i = run.first_entry; i < run.first_entry + run.entries; ++i) {
      const ExecutionProfile::Entry& entry = execution.trace[i];
      entries.push_back(Map{{"step", entry.step},
                            {"from", entry.from},
                            {"to", entry.from + engine.cycles[entry.step]}});
    }
    runs.push_back(Map{{"program", run.program},
                       {"name", run.name},
                       {"from", run.from},
                       {"to", run.to},
                       {"steps", entries}});
  }
  return Map{{"cycles", compute + exchange + sync},
             {"compute", compute},
             {"exchange", exchange},
             {"sync", sync},
             {"numRuns", execution.number_of_runs},
             {"counts", List(execution.counts)},
             {"runs", runs}};
}

ProfileValue WholeProfile(const ExecutableData& code, const EngineData* engine) {
  Map map{{"format", kFormat},
          {"version", kVersion},
          {"poplarVersion", versionString()},
          {"compilation", GraphProfileOf(code)}};
  if (engine != nullptr) map["execution"] = ExecutionProfileOf(*engine);
  std::ostringstream summary;
  printProfileSummary(summary, map["compilation"], map["execution"], {{"showVarStorage", "true"}});
  if (engine == nullptr) map.erase("execution");
  map["summary"] = summary.str();
  return map;
}

bool ExecutionIsProfiled(const ExecutableData& code) {
  if (code.target.getTargetType() == TargetType::IPU_MODEL) return true;
  const OptionFlags& o = code.options;
  const char* const instruments[] = {"debug.instrument", "debug.instrumentCompute",
                                     "debug.instrumentControlFlow",
                                     "debug.instrumentExternalExchange"};
  return Reports(o, "autoReport.outputExecutionProfile") ||
         std::any_of(std::begin(instruments), std::end(instruments),
                     [&](const char* name) { return OptionIs(o, name, "true"); });
}

bool WritesProfile(const OptionFlags& options) {
  return Reports(options, "autoReport.outputGraphProfile") ||
         Reports(options, "autoReport.outputExecutionProfile");
}

std::string WriteProfile(const ExecutableData& code, const EngineData* engine) {
  const std::filesystem::path directory = Directory(code.options);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const bool executes = engine != nullptr && ExecutionIsProfiled(code) &&
                        Reports(code.options, "autoReport.outputExecutionProfile");
  WriteFile(directory / "profile.pop", toJson(WholeProfile(code, executes ? engine : nullptr)));
  if (Reports(code.options, "autoReport.outputDebugInfo")) {
    std::string names;
    WriteCbor(Map{{"variables", VariablesProfile(code.profile)}}, &names);
    WriteFile(directory / "debug.cbor", names);
  }
  return (directory / "profile.pop").string();
}

}  // namespace poplar::core
