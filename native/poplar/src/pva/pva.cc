#include "pva/pva.hpp"

#include <fstream>
#include <sstream>
#include <utility>

#include "poplar/core/Json.hpp"
#include "poplar/exceptions.hpp"

namespace pva {

using poplar::ProfileValue;

namespace {

// Of the form that this library reads.
constexpr const char* kFormat = "tensorflow_ipu poplar profile";
constexpr uint64_t kVersion = 1;

std::vector<Step> StepsOf(const std::shared_ptr<const ProfileValue>& whole,
                          const ProfileValue& run) {
  const ProfileValue& programs = (*whole)["compilation"]["steps"];
  std::vector<Step> steps;
  for (const ProfileValue& entry : run["steps"].asVector()) {
    steps.emplace_back(whole, entry, programs[entry["step"].asUint()]);
  }
  return steps;
}

unsigned PartOfVersion(const std::string& version, int part) {
  std::istringstream stream(version);
  unsigned number = 0;
  char point;
  for (int i = 0; i <= part; ++i) stream >> number >> point;
  return number;
}

}  // namespace

std::string Version::string() const { return value_->asString(); }
unsigned Version::major() const { return PartOfVersion(string(), 0); }
unsigned Version::minor() const { return PartOfVersion(string(), 1); }
unsigned Version::point() const { return PartOfVersion(string(), 2); }

Target::Type Target::type() const {
  const std::string name = text("type");
  return name == "IPU" ? Type::IPU : name == "CPU" ? Type::CPU : Type::IPU_MODEL;
}

CompilationTile::Memory CompilationTile::memory() const {
  Memory memory{0};
  for (const auto& category : at("memory")["byTile"].asMap()) {
    memory.bytes += category.second[tile_].asUint();
  }
  return memory;
}

uint64_t CompilationTile::numVertices() const { return at("vertices")["byTile"][tile_].asUint(); }

std::vector<CompilationTile> Compilation::tiles() const {
  std::vector<CompilationTile> tiles;
  for (size_t t = 0; t < target().numTiles(); ++t) tiles.emplace_back(whole_, *value_, t);
  return tiles;
}

std::vector<Program> Compilation::programs() const {
  std::vector<Program> programs;
  // The first step stands for control flow.
  for (size_t s = 1; s < at("steps").size(); ++s) programs.emplace_back(whole_, at("steps")[s]);
  return programs;
}

std::vector<ComputeSet> Compilation::computeSets() const {
  std::vector<ComputeSet> sets;
  for (const ProfileValue& set : at("computeSets").asVector()) sets.emplace_back(whole_, set);
  return sets;
}

std::vector<Step> Run::steps() const { return StepsOf(whole_, *value_); }

std::vector<Run> Execution::runs() const {
  std::vector<Run> runs;
  for (const ProfileValue& run : at("runs").asVector()) runs.emplace_back(whole_, run);
  return runs;
}

std::vector<Step> Execution::steps() const {
  std::vector<Step> steps;
  for (const Run& run : runs()) {
    for (Step& step : run.steps()) steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Block> Execution::blocks(size_t tile) const {
  const uint64_t tiles = (*whole_)["compilation"]["target"]["numTiles"].asUint();
  if (tile < tiles) return steps();
  throw poplar::index_error("The report has no tile " + std::to_string(tile) + ".");
}

Compilation Report::compilation() const {
  return Compilation(profile_, (*profile_)["compilation"]);
}

bool Report::hasExecution() const { return profile_->getOrNull("execution") != nullptr; }

Execution Report::execution() const {
  if (hasExecution()) return Execution(profile_, (*profile_)["execution"]);
  throw poplar::missing_profile_data(
      "The report has no execution: set debug.instrument or autoReport.outputExecutionProfile.");
}

Version Report::poplarVersion() const { return Version(profile_, (*profile_)["poplarVersion"]); }

Report openReport(const std::string& profile, const std::string&) {
  std::ifstream file(profile, std::ios::binary);
  if (!file) throw poplar::file_load_error("The report '" + profile + "' cannot be read.");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string contents = text.str();
  if (contents.empty() || contents[0] != '{') {
    throw poplar::file_load_error(
        "'" + profile + "' is no report of tensorflow_ipu. The form of Graphcore's is not public.");
  }
  auto value = std::make_shared<const ProfileValue>(poplar::core::parseJson(contents));
  const ProfileValue* format = value->getOrNull("format");
  if (format == nullptr || format->asString() != kFormat ||
      (*value)["version"].asUint() != kVersion) {
    throw poplar::file_load_error("'" + profile +
                                  "' is no report of a Poplar program of this release.");
  }
  return Report(std::move(value));
}

}  // namespace pva
