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
  bool replica_index = false;            // the number of the replica
  std::shared_ptr<const View> metadata;  // of quarters: the format and scale, if they are known
  // Its place in the arena that variables share; -1 for memory of its own.
  int64_t place = -1;
};

// The elements that a field of a vertex is connected to.
struct Edge {
  uint32_t vertex;
  uint16_t field;
  int32_t region;  // of a list, else -1
  Run run;         // where it is one; else count is 0
  std::shared_ptr<const RunList> runs;

  uint64_t Size() const { return runs != nullptr ? runs->size() : run.count; }
  template <typename Visit>
  void ForEachRun(Visit visit) const {
    if (runs == nullptr) {
      if (run.count > 0) visit(run);
      return;
    }
    for (const Run& part : runs->runs()) visit(part);
  }
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

// The items of each vertex, in their order: edges, or states.
class VertexIndex {
 public:
  // Calls `visit` with the items of a vertex. The index is made again if items were added.
  template <typename Item, typename Visit>
  void ForEach(const std::vector<Item>& items, size_t vertices, uint32_t vertex, Visit visit) {
    if (order_.size() != items.size() || first_.size() != vertices + 1) Build(items, vertices);
    for (uint32_t i = first_[vertex]; i < first_[vertex + 1]; ++i) visit(items[order_[i]]);
  }

 private:
  template <typename Item>
  void Build(const std::vector<Item>& items, size_t vertices) {
    first_.assign(vertices + 1, 0);
    for (const Item& item : items) ++first_[item.vertex + 1];
    for (size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    order_.resize(items.size());
    for (uint32_t i = 0; i < items.size(); ++i) order_[next[items[i].vertex]++] = i;
  }

  std::vector<uint32_t> first_, order_;
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
  uint64_t arena = 0;  // bytes
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
  // Variables that stand for registers; null until a program uses them.
  ViewPtr floating_point_register, seed_registers;

  template <typename Visit>
  void ForEachEdge(uint32_t vertex, Visit visit) const {
    edge_index_.ForEach(edges, vertices.size(), vertex, visit);
  }
  template <typename Visit>
  void ForEachState(uint32_t vertex, Visit visit) const {
    state_index_.ForEach(states, vertices.size(), vertex, visit);
  }

 private:
  mutable VertexIndex edge_index_, state_index_;
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
  kLoop,
  kWhile,
  kIf,
  kSwitch,
  kCall,
  kHostCall,
  kLibraryOp,
  kCollectiveOp,
  kPrint,
  kCycleStamp,
  kFloatingPoint,
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
  unsigned clear = 0, set = 0;  // bits of the floating-point register
};

// The format and scale of quarters, or null if a view has several or none.
std::shared_ptr<const View> MetadataOf(const View& view);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_GRAPH_DATA_H_
