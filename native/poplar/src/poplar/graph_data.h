// What a graph holds.
#ifndef TENSORFLOW_IPU_POPLAR_GRAPH_DATA_H_
#define TENSORFLOW_IPU_POPLAR_GRAPH_DATA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "codelets.h"
#include "poplar/DataStreamType.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/PerfEstimateFunc.hpp"
#include "poplar/Program.hpp"
#include "poplar/ReplicatedStreamMode.hpp"
#include "poplar/Target.hpp"
#include "types.h"
#include "view.h"

namespace poplar::core {

constexpr int64_t kUnmapped = -1;

// Which tile has which elements of a variable: each entry holds up to the next.
class TileMap {
 public:
  explicit TileMap(uint64_t count) : count_(count) { tiles_[0] = kUnmapped; }
  void Set(uint64_t begin, uint64_t end, int64_t tile);
  // Calls `visit(begin, end, tile)` for the parts of an interval.
  template <typename Visit>
  void ForEach(uint64_t begin, uint64_t end, Visit visit) const {
    auto it = std::prev(tiles_.upper_bound(begin));
    while (begin < end) {
      const auto next = std::next(it);
      const uint64_t stop = next == tiles_.end() ? end : std::min(end, next->first);
      visit(begin, stop, it->second);
      begin = stop;
      it = next;
    }
  }

 private:
  uint64_t count_;
  std::map<uint64_t, int64_t> tiles_;
};

struct Variable {
  Type type;
  uint64_t count;
  std::string name;
  SourceLocation location;
  bool constant = false;
  // At the start: nothing is zeros, one element is for all.
  std::vector<uint8_t> initial;
  TileMap tiles;
  // The number of an external variable, whose memory belongs to the caller; else -1.
  int external = -1;
  bool replica_index = false;  // the number of the replica
};

// The elements that a field of a vertex is connected to.
struct Edge {
  uint32_t vertex;
  uint16_t field;
  int32_t region;  // of a list, else -1
  Run run;         // where it is one; else count is 0
  std::shared_ptr<const RunList> runs;

  uint64_t Size() const { return runs != nullptr ? runs->size() : run.count; }
};

struct State {
  uint32_t vertex;
  uint16_t field;
  std::vector<uint8_t> bytes;
};

struct Vertex {
  const VertexType* type;
  uint32_t compute_set;
  int64_t tile = kUnmapped;
  bool has_estimate = false;
  VertexPerfEstimate estimate;
  SourceLocation location;
};

struct ComputeSetData {
  std::string name;
  SourceLocation location;
  std::vector<uint32_t> vertices;
  // Ops of libraries, which stand for vertices of the original's.
  std::vector<program::Program> ops;
};

struct StreamData {
  unsigned id;
  std::string handle;
  Type type;
  size_t count;
  unsigned replicas;
  ReplicatedStreamMode mode;
  DataStreamType kind;
  unsigned depth;  // of buffers
};

struct BufferData {
  unsigned id;
  std::string handle;
  Type type;
  size_t count, repeats;
  bool rearrange, optimise;
};

struct HostFunctionData {
  std::string handle;
  std::vector<HostFunctionArgument> inputs, outputs;
};

struct HostTensor {
  ViewPtr view;
  bool write;
};

struct GraphData {
  GraphData(Target target, unsigned replicas) : target(std::move(target)), replicas(replicas) {}

  Target target;  // of one replica
  unsigned replicas;
  std::vector<Variable> variables;
  std::vector<ComputeSetData> compute_sets;
  std::vector<Vertex> vertices;
  std::vector<Edge> edges;
  std::vector<State> states;
  std::vector<std::shared_ptr<const StreamData>> streams;
  std::vector<std::shared_ptr<const BufferData>> buffers;
  std::vector<HostFunctionData> host_functions;
  std::vector<program::Program> functions;
  std::map<std::string, HostTensor> host_writes, host_reads;
  std::vector<std::shared_ptr<const CodeletLibrary>> libraries;
  std::unordered_map<std::string, const VertexType*> vertex_types;
  std::unordered_map<std::string, PerfEstimateFunc> estimators;
  std::map<std::pair<uint32_t, uint16_t>, size_t> field_sizes;
};

// `file:line ` of a place in the user's source, for messages.
std::string Prefix(const SourceLocation& location);

enum class ProgramKind {
  kSequence,
  kExecute,
  kCopy,
  kStreamToDevice,
  kStreamToHost,
  kRemoteRead,
  kRemoteWrite,
  kCrossReplicaCopy,
  kRepeat,
  kWhile,
  kIf,
  kSwitch,
  kCall,
  kHostCall,
  kLibraryOp,
  kCollectiveOp,
  kPrint,
  kNothing,
  kAbort,
};

// A step of a program; which members count is said by its kind.
struct ProgramNode {
  ProgramKind kind;
  std::string name;
  SourceLocation location;
  std::vector<program::Program> children;
  std::vector<Tensor> inputs, outputs;
  std::vector<int32_t> values;  // of a switch
  unsigned number = 0;          // of a compute set, function, stream, buffer; repetitions
  bool flag = false;            // loop while true; switch without default is an error; outputs
                                // of a library's op may be its inputs
  std::string text;             // title or message; kernel of a library's op
  std::string parameters;       // of the kernel
  PrintTensorFmt format;
  std::map<unsigned, unsigned> replicas;
};

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_GRAPH_DATA_H_
