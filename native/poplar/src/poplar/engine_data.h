// An engine: programs, and the memories of the replicas that run them.
#ifndef TENSORFLOW_IPU_POPLAR_ENGINE_DATA_H_
#define TENSORFLOW_IPU_POPLAR_ENGINE_DATA_H_

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executable_data.h"
#include "poplar/StreamCallback.hpp"
#include "poplar/core/LibraryOp.hpp"
#include "streams.h"

namespace poplar::core {

// Memory of a device: aligned, and zeros.
class Memory {
 public:
  explicit Memory(uint64_t bytes);
  char* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(char* data) const;
  };
  std::unique_ptr<char, Free> data_;
};

// Where the arguments of an op of a library are in a run. Replicas keep them, as a run may be
// shorter than the allocation of vectors.
struct Places {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

struct Replica {
  unsigned number;
  std::unique_ptr<Memory> memory, states;
  std::vector<char*> regions;                              // of places
  std::vector<std::vector<const Fixup*>> external_fixups;  // of each external variable
  std::vector<Memory> remote;                              // of the remote buffers
  std::vector<std::unique_ptr<Kernel>> kernels;            // of the ops of libraries
  std::vector<Places> places;                              // of their arguments
  std::vector<StaticsByTile> statics;                      // of the libraries of codelets

  uint64_t cycles = 0;          // since the engine was loaded
  unsigned floating_point = 0;  // the register: see registers.h

  AddressSpace space() const { return {regions.data()}; }
};

// What replica 0 has run. Cycles are modelled.
struct ExecutionProfile {
  struct Entry {
    uint32_t step;
    uint64_t from;  // cycle
  };
  struct Run {
    unsigned program;
    std::string name;
    uint64_t from, to;            // cycles
    size_t first_entry, entries;  // of the trace
  };

  bool enabled = true;
  // From the options, which each run would look up.
  bool written = false;          // to a file, after each of the first runs and at the end
  uint64_t traced_runs = 0;      // how many of the first runs
  std::vector<uint64_t> counts;  // of the steps
  std::vector<Entry> trace;      // of the first runs
  std::vector<Run> runs;
  uint64_t number_of_runs = 0;
};

struct EngineData {
  std::shared_ptr<ExecutableData> code;
  std::vector<Replica> replicas;
  std::vector<std::unique_ptr<CollectiveKernel>> collectives;  // by the number of the op
  std::vector<uint32_t> chains;  // that begin at an instruction: see chains.h
  std::vector<HostStream> streams;
  std::vector<StreamCallbackHandle> callbacks;
  // By handle and replica; a function of all replicas is of the first.
  std::map<std::pair<std::string, unsigned>, HostCallbackHandle> host_functions;
  std::ostream* print = &std::cerr;
  std::vector<uint64_t> cycles;  // of the steps
  ExecutionProfile execution;
  bool loaded = false;
};

std::unique_ptr<EngineData> MakeEngine(std::shared_ptr<ExecutableData> code);
// Sets variables to their values at the start.
void Load(EngineData* engine);
// Runs a program on all replicas.
void RunProgram(EngineData* engine, unsigned program, const std::string& name);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_ENGINE_DATA_H_
