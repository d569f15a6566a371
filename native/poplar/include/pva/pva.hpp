// Reports of programs, as they were profiled.
#ifndef pva_pva_hpp
#define pva_pva_hpp

#include <poplar/ProfileValue.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pva {

namespace core {

/// A part of a profile, which keeps the whole alive.
class Part {
 public:
  Part(std::shared_ptr<const poplar::ProfileValue> whole, const poplar::ProfileValue &value)
      : whole_(std::move(whole)), value_(&value) {}

 protected:
  std::uint64_t number(const char *key) const { return (*value_)[key].asUint(); }
  std::string text(const char *key) const { return (*value_)[key].asString(); }
  const poplar::ProfileValue &at(const char *key) const { return (*value_)[key]; }

  std::shared_ptr<const poplar::ProfileValue> whole_;
  const poplar::ProfileValue *value_;
};

}  // namespace core

/// The version of the library that made a report.
class Version : core::Part {
 public:
  using Part::Part;
  std::string string() const;
  unsigned major() const;
  unsigned minor() const;
  unsigned point() const;
};

/// The device of a program.
class Target : core::Part {
 public:
  using Part::Part;
  enum class Type { IPU, IPU_MODEL, CPU };
  std::uint64_t numTiles() const { return number("numTiles"); }
  std::uint64_t numIPUs() const { return number("numIPUs"); }
  std::uint64_t numReplicas() const { return number("numReplicas"); }
  std::uint64_t tilesPerIpu() const { return number("tilesPerIpu"); }
  std::uint64_t bytesPerTile() const { return number("bytesPerTile"); }
  std::uint64_t totalMemory() const { return numTiles() * bytesPerTile(); }
  double clockFrequency() const { return at("clockFrequency").asDouble(); }
  Type type() const;
  std::string architecture() const { return text("architecture"); }
};

/// Numbers of elements of a graph.
class Graph : core::Part {
 public:
  using Part::Part;
  std::uint64_t numComputeSets() const { return number("numComputeSets"); }
  std::uint64_t numVertices() const { return number("numVertices"); }
  std::uint64_t numEdges() const { return number("numEdges"); }
  std::uint64_t numVars() const { return number("numVars"); }
};

/// Bytes of a tile.
class TileMemory {
 public:
  explicit TileMemory(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t includingGaps() const { return bytes_; }
  std::uint64_t excludingGaps() const { return bytes_; }

 private:
  std::uint64_t bytes_;
};

class CompilationTile : core::Part {
 public:
  CompilationTile(std::shared_ptr<const poplar::ProfileValue> whole,
                  const poplar::ProfileValue &value, std::size_t tile)
      : Part(std::move(whole), value), tile_(tile) {}
  struct Memory {
    std::uint64_t bytes;
    TileMemory total() const { return TileMemory(bytes); }
  };
  /// Variables, constants and vertex state.
  Memory memory() const;
  std::uint64_t numVertices() const;

 private:
  std::size_t tile_;
};

/// A step of a program.
class Program : core::Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string type() const { return text("kind"); }
};

/// A compute set that a program uses.
class ComputeSet : core::Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::uint64_t numVertices() const { return number("numVertices"); }
  std::vector<std::uint64_t> estimatedCyclesByTile() const {
    return at("cyclesByTile").toUintVector();
  }
};

class Compilation : core::Part {
 public:
  using Part::Part;
  Graph graph() const { return Graph(whole_, at("graph")); }
  Target target() const { return Target(whole_, at("target")); }
  std::vector<CompilationTile> tiles() const;
  std::vector<Program> programs() const;
  std::vector<ComputeSet> computeSets() const;
};

/// A step that has run; cycles are modelled.
class Step : core::Part {
 public:
  Step(std::shared_ptr<const poplar::ProfileValue> whole, const poplar::ProfileValue &value,
       const poplar::ProfileValue &program)
      : Part(std::move(whole), value), program_(&program) {}
  std::shared_ptr<Program> program() const { return std::make_shared<Program>(whole_, *program_); }
  std::uint64_t cyclesFrom() const { return number("from"); }
  std::uint64_t cyclesTo() const { return number("to"); }
  std::uint64_t cycles() const { return cyclesTo() - cyclesFrom(); }

 private:
  const poplar::ProfileValue *program_;
};

using Block = Step;

/// One call of `Engine::run`.
class Run : core::Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::uint64_t program() const { return number("program"); }
  std::uint64_t cyclesFrom() const { return number("from"); }
  std::uint64_t cyclesTo() const { return number("to"); }
  std::uint64_t cycles() const { return cyclesTo() - cyclesFrom(); }
  std::vector<Step> steps() const;
};

class Execution : core::Part {
 public:
  using Part::Part;
  std::vector<Run> runs() const;
  /// The steps of all runs.
  std::vector<Step> steps() const;
  /// The steps on a tile: tiles run all steps together.
  std::vector<Block> blocks(std::size_t tile = 0) const;
  std::uint64_t totalCycles() const { return number("cycles"); }
};

/// The report of a program.
class Report {
 public:
  explicit Report(std::shared_ptr<const poplar::ProfileValue> profile)
      : profile_(std::move(profile)) {}

  Compilation compilation() const;
  /// Throws poplar::missing_profile_data if the program was not profiled.
  Execution execution() const;
  bool hasExecution() const;
  Version poplarVersion() const;

 private:
  std::shared_ptr<const poplar::ProfileValue> profile_;
};

/// Reads `profile.pop`. Throws poplar::poplar_error for a file that is not there, or no report of
/// tensorflow_ipu. Names are in the profile: `debug` is not read.
Report openReport(const std::string &profile, const std::string &debug = "");

}  // namespace pva

#endif  // pva_pva_hpp
