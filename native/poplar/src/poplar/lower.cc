// From a graph and its programs to instructions.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "access.h"
#include "cost_model.h"
#include "engine_options.h"
#include "executable_data.h"
#include "graph_data.h"
#include "target_data.h"
#include "types.h"
#include "view.h"

namespace poplar::core {
namespace {

constexpr uint64_t kAlignment = 64;
// Vertices may read a little beyond what they are given.
constexpr uint64_t kPadding = 16;

uint64_t Aligned(uint64_t place, uint64_t alignment = kAlignment) {
  return (place + alignment - 1) / alignment * alignment;
}

// The elements of a view in pieces of one run each: places in bytes.
class Places {
 public:
  struct Piece {
    int64_t begin;
    uint64_t count;
    int64_t step;
  };

  void Add(int64_t begin, uint64_t count, int64_t step) { pieces_.push_back({begin, count, step}); }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;
};

// Pairs the elements of two lists of places.
CopyBlock Pair(const Places& source, const Places& target, uint32_t size) {
  CopyBlock block;
  size_t s = 0, t = 0;
  uint64_t s_done = 0, t_done = 0;
  while (s < source.pieces().size() && t < target.pieces().size()) {
    const Places::Piece& from = source.pieces()[s];
    const Places::Piece& to = target.pieces()[t];
    const uint64_t count = std::min(from.count - s_done, to.count - t_done);
    Segment segment{from.begin + static_cast<int64_t>(s_done) * from.step,
                    to.begin + static_cast<int64_t>(t_done) * to.step,
                    count,
                    size,
                    from.step,
                    to.step};
    // One piece of bytes where both are contiguous.
    const bool one = (segment.source_step == size && segment.target_step == size) || count == 1;
    if (one && uint64_t{size} * count <= UINT32_MAX) {
      segment.size = static_cast<uint32_t>(size * count);
      segment.count = 1;
      segment.source_step = segment.target_step = 0;
    }
    if (count > 0) block.push_back(segment);
    s_done += count;
    t_done += count;
    if (s_done == from.count) ++s, s_done = 0;
    if (t_done == to.count) ++t, t_done = 0;
  }
  return block;
}

class Lowering {
 public:
  Lowering(const GraphData& graph, const OptionFlags& options)
      : graph_(graph), costs_(graph), result_(std::make_shared<ExecutableData>()) {
    result_->target = graph.target;
    result_->replicas = graph.replicas;
    result_->options = options;
    result_->libraries = graph.libraries;
  }

  std::shared_ptr<ExecutableData> Lower(const std::vector<program::Program>& programs) {
    PlaceVariables();
    for (const auto& stream : graph_.streams) {
      result_->streams.push_back({stream->handle, stream->kind == DataStreamType::HostToDeviceFIFO,
                                  stream->mode == ReplicatedStreamMode::BROADCAST,
                                  stream->count * SizeOf(stream->type), stream->depth});
    }
    for (const auto& buffer : graph_.buffers) {
      result_->buffers.push_back(
          {buffer->handle, buffer->count * SizeOf(buffer->type), buffer->repeats});
    }
    for (const program::Program& program : programs) {
      result_->entries.push_back(Here());
      Emit(program);
      Add({Op::kReturn});
    }
    // Calls are known by then; functions may call others.
    for (size_t f = 0; f < functions_.size(); ++f) {
      functions_[f].entry = Here();
      Emit(graph_.functions[functions_[f].id]);
      Add({Op::kReturn});
    }
    for (const auto& [at, index] : calls_) {
      result_->instructions[at].b = functions_[index].entry;
    }
    for (const auto& [handle, tensor] : graph_.host_writes) AddHostAccess(handle, tensor);
    for (const auto& [handle, tensor] : graph_.host_reads) AddHostAccess(handle, tensor);
    result_->memory = Aligned(result_->memory + kPadding);
    if (graph_.floating_point_register != nullptr) {
      result_->floating_point_register =
          static_cast<int64_t>(places_[graph_.floating_point_register->strided.var]);
    }
    result_->profile = std::move(*costs_.profile());
    return result_;
  }

 private:
  // ---- memory

  void PlaceVariables() {
    places_.reserve(graph_.variables.size());
    const uint64_t arena = Reserve(graph_.arena);
    for (const Variable& variable : graph_.variables) {
      const size_t size = SizeOf(variable.type);
      if (variable.external >= 0) {
        places_.push_back(PlaceExternal(variable, variable.count * size));
        continue;
      }
      if (variable.place >= 0) {
        places_.push_back(arena + static_cast<uint64_t>(variable.place));
        continue;
      }
      const uint64_t place = Aligned(result_->memory);
      places_.push_back(place);
      result_->memory = place + variable.count * size + kPadding;
      if (variable.replica_index) result_->replica_indices.push_back(place);
      if (variable.initial.empty() || variable.count == 0) continue;
      const uint64_t repeats = variable.initial.size() == size ? variable.count : 1;
      result_->initial.push_back({place, variable.initial, repeats});
    }
  }

  uint64_t PlaceExternal(const Variable& variable, uint64_t bytes) {
    const size_t number = static_cast<size_t>(variable.external);
    if (result_->externals.size() <= number) result_->externals.resize(number + 1);
    result_->externals[number] = {variable.name, bytes};
    return uint64_t{number + 1} << kRegionShift;
  }

  uint64_t Reserve(uint64_t bytes) {
    const uint64_t place = Aligned(result_->memory);
    result_->memory = place + bytes + kPadding;
    return place;
  }

  void AddPlaces(const Run& run, Places* places) {
    const int64_t size = static_cast<int64_t>(SizeOf(graph_.variables[run.var].type));
    CheckMapped(run);
    places->Add(static_cast<int64_t>(places_[run.var]) + run.begin * size, run.count,
                run.stride * size);
  }

  Places PlacesOf(const View& view) {
    Places places;
    ForEachRun(view, [&](const Run& run) { AddPlaces(run, &places); });
    return places;
  }

  static Places Contiguous(uint64_t place, uint64_t count, size_t size) {
    Places places;
    places.Add(static_cast<int64_t>(place), count, static_cast<int64_t>(size));
    return places;
  }

  // The place of a view, if its elements are one after the other.
  std::optional<uint64_t> PlaceOf(const View& view) {
    const RunList list = RunsOf(view);
    if (list.runs().empty()) return 0;
    if (list.runs().size() > 1 || list.runs()[0].stride != 1) return std::nullopt;
    const Run& run = list.runs()[0];
    CheckMapped(run);
    return places_[run.var] + run.begin * SizeOf(view.type);
  }

  void CheckMapped(const Run& run) {
    if (run.count == 0) return;
    const Variable& variable = graph_.variables[run.var];
    uint64_t missing = 0;
    const auto count = [&](uint64_t begin, uint64_t end) {
      variable.tiles.ForEach(begin, end, [&](uint64_t b, uint64_t e, int64_t tile) {
        if (tile == kUnmapped) missing += e - b;
      });
    };
    if (run.stride == 1 || run.stride == -1) {
      count(run.Lowest(), run.Highest() + 1);
    } else {
      for (uint64_t i = 0; i < run.count; ++i) count(run.At(i), run.At(i) + 1);
    }
    if (missing == 0) return;
    throw invalid_tile_mapping(Prefix(variable.location) + "The tensor '" + variable.name +
                               "' is not mapped: " + std::to_string(missing) +
                               " elements that a program uses have no tile.");
  }

  // ---- vertices

  [[noreturn]] void FailField(uint32_t vertex, const VertexField& field,
                              const std::string& what) const {
    const Vertex& data = graph_.vertices[vertex];
    throw graph_connection_error(Prefix(graph_.compute_sets[data.compute_set].location) + "Field " +
                                 data.type->name + "." + field.name + " " + what);
  }

  uint64_t ReserveState(uint64_t bytes, uint64_t alignment) {
    const uint64_t place = Aligned(result_->states.size(), alignment);
    result_->states.resize(place + bytes);
    return place;
  }

  void Put(uint64_t at, const void* bytes, size_t size) {
    if (size > 0) std::memcpy(result_->states.data() + at, bytes, size);
  }

  void PutSize(uint64_t at, uint64_t value) { Put(at, &value, sizeof value); }

  // Where the elements of an edge are: in memory, or in a buffer.
  uint64_t Bind(const Edge& edge, const VertexField& field, ComputeSetCode* code) {
    const size_t size = SizeOf(field.type);
    if (edge.Size() == 0) return 0;
    if (!checked_ && edge.runs == nullptr && (edge.run.stride == 1 || edge.run.count == 1)) {
      CheckMapped(edge.run);
      const uint64_t place = places_[edge.run.var] + edge.run.begin * size;
      if (place % field.align == 0) return place;
    }
    Places places;
    if (edge.runs != nullptr) {
      for (const Run& run : edge.runs->runs()) AddPlaces(run, &places);
    } else {
      AddPlaces(edge.run, &places);
    }
    const uint64_t buffer =
        checked_ ? ReserveGuarded(edge, size, code) : Reserve(edge.Size() * size);
    const Places contiguous = Contiguous(buffer, edge.Size(), size);
    // A vertex need not write all, so what is there comes first.
    Append(Pair(places, contiguous, static_cast<uint32_t>(size)), &code->before);
    if (field.access != FieldAccess::Read) {
      Append(Pair(contiguous, places, static_cast<uint32_t>(size)), &code->after);
    }
    return buffer;
  }

  // A buffer between guards. The vertex is the last one that has a tile in the code.
  uint64_t ReserveGuarded(const Edge& edge, size_t size, ComputeSetCode* code) {
    const uint64_t bytes = edge.Size() * size;
    const uint64_t buffer = Reserve(bytes + 2 * kGuardBytes) + kGuardBytes;
    code->guards.push_back({buffer, bytes, code->tiles.size() - 1, edge.field});
    return buffer;
  }

  static void Append(CopyBlock from, CopyBlock* to) {
    to->insert(to->end(), from.begin(), from.end());
  }

  void FillVertex(uint32_t vertex, uint64_t at, ComputeSetCode* code) {
    const VertexType& type = *graph_.vertices[vertex].type;
    std::vector<bool> connected(type.fields.size(), false);
    // Lists first: how many regions they have is known only when all edges were seen.
    for (size_t f = 0; f < type.fields.size(); ++f) {
      const VertexField& field = type.fields[f];
      const bool list = field.form == FieldForm::EdgeList || field.form == FieldForm::RegionList;
      if (list) {
        FillList(vertex, static_cast<uint16_t>(f), at, code);
        connected[f] = true;
      }
    }
    graph_.ForEachEdge(vertex, [&](const Edge& edge) {
      const VertexField& field = type.fields[edge.field];
      if (edge.region >= 0) return;
      if (connected[edge.field]) FailField(vertex, field, "is connected twice.");
      connected[edge.field] = true;
      result_->fixups.push_back({at + field.offset, Bind(edge, field, code), false});
      if (field.form == FieldForm::Vector) {
        PutSize(at + field.offset + sizeof(void*), edge.Size());
      }
    });
    graph_.ForEachState(vertex, [&](const State& state) {
      const VertexField& field = type.fields[state.field];
      connected[state.field] = true;
      if (field.form == FieldForm::Scalar) {
        Put(at + field.offset, state.bytes.data(), state.bytes.size());
        return;
      }
      const uint64_t place = ReserveState(state.bytes.size() + kPadding, kAlignment);
      Put(place, state.bytes.data(), state.bytes.size());
      result_->fixups.push_back({at + field.offset, place, true});
      PutSize(at + field.offset + sizeof(void*), state.bytes.size() / SizeOf(field.type));
    });
    for (size_t f = 0; f < type.fields.size(); ++f) {
      if (!connected[f] && type.fields[f].access != FieldAccess::State) {
        FailField(vertex, type.fields[f], "is not connected.");
      }
    }
  }

  void FillList(uint32_t vertex, uint16_t index, uint64_t at, ComputeSetCode* code) {
    const VertexField& field = graph_.vertices[vertex].type->fields[index];
    std::vector<const Edge*> regions;
    const auto size = graph_.field_sizes.find({vertex, index});
    if (size != graph_.field_sizes.end()) regions.resize(size->second, nullptr);
    bool any = size != graph_.field_sizes.end();
    graph_.ForEachEdge(vertex, [&](const Edge& edge) {
      if (edge.field != index) return;
      any = true;
      if (regions.size() <= static_cast<size_t>(edge.region)) {
        if (size != graph_.field_sizes.end())
          FailField(vertex, field, "has more regions than its size.");
        regions.resize(edge.region + 1, nullptr);
      }
      if (regions[edge.region] != nullptr) FailField(vertex, field, "has a region twice.");
      regions[edge.region] = &edge;
    });
    if (!any) return;  // a list of no regions
    const bool spans = field.form == FieldForm::RegionList;
    const uint64_t step = spans ? 2 * sizeof(void*) : sizeof(void*);
    const uint64_t array = ReserveState(regions.size() * step, kAlignment);
    result_->fixups.push_back({at + field.offset, array, true});
    PutSize(at + field.offset + sizeof(void*), regions.size());
    for (size_t r = 0; r < regions.size(); ++r) {
      if (regions[r] == nullptr) {
        FailField(vertex, field, "has no tensor for region " + std::to_string(r) + ".");
      }
      result_->fixups.push_back({array + r * step, Bind(*regions[r], field, code), false});
      if (spans) PutSize(array + r * step + sizeof(void*), regions[r]->Size());
    }
  }

  std::pair<uint32_t, uint32_t> Numbers(const VertexType* type) const {
    for (uint32_t l = 0; l < graph_.libraries.size(); ++l) {
      const auto& types = graph_.libraries[l]->types();
      if (!types.empty() && type >= types.data() && type < types.data() + types.size()) {
        return {l, static_cast<uint32_t>(type - types.data())};
      }
    }
    throw poplar_error("A vertex type belongs to no library.");
  }

  struct UsedComputeSet {
    int64_t code;
    uint32_t step;  // of the profile
  };

  UsedComputeSet ComputeSetOf(unsigned id) {
    const auto known = compute_sets_.find(id);
    if (known != compute_sets_.end()) return known->second;
    if (id >= graph_.compute_sets.size()) {
      throw control_program_error("Execute: the compute set is not one of this graph.");
    }
    const ComputeSetData& data = graph_.compute_sets[id];
    CheckConflicts(data);
    std::vector<std::pair<const VertexType*, std::vector<uint32_t>>> groups;
    std::unordered_map<const VertexType*, size_t> group_of;
    for (const uint32_t vertex : data.vertices) {
      const Vertex& v = graph_.vertices[vertex];
      if (v.tile == kUnmapped) {
        throw invalid_tile_mapping(Prefix(data.location) + "A vertex '" + v.type->name +
                                   "' of compute set '" + data.name + "' is mapped to no tile.");
      }
      const auto [group, is_new] = group_of.emplace(v.type, groups.size());
      if (is_new) groups.push_back({v.type, {}});
      groups[group->second].second.push_back(vertex);
    }
    ComputeSetCode code;
    code.name = data.name;
    for (const auto& [type, vertices] : groups) {
      const auto [library, number] = Numbers(type);
      const uint64_t stride = Aligned(std::max<uint64_t>(1, type->size), type->align);
      const uint64_t states = ReserveState(stride * vertices.size(), kAlignment);
      const uint64_t first = code.tiles.size();
      for (size_t i = 0; i < vertices.size(); ++i) {
        code.tiles.push_back(static_cast<uint32_t>(graph_.vertices[vertices[i]].tile));
        FillVertex(vertices[i], states + i * stride, &code);
      }
      code.batches.push_back({library, number, states, vertices.size(), stride, first});
    }
    const UsedComputeSet result{static_cast<int64_t>(result_->compute_sets.size()),
                                AddStep(costs_.OfComputeSet(data))};
    result_->compute_sets.push_back(std::move(code));
    compute_sets_[id] = result;
    return result;
  }

  struct Use {
    uint32_t var;
    int64_t begin, end;
    uint32_t vertex;
    uint16_t field;
    bool write;
  };

  // No element may be written by one vertex and used by another of the same compute set.
  void CheckConflicts(const ComputeSetData& data) const {
    std::vector<Use> uses;
    for (const uint32_t vertex : data.vertices) {
      graph_.ForEachEdge(vertex, [&](const Edge& edge) {
        const VertexField& field = graph_.vertices[vertex].type->fields[edge.field];
        const bool write = field.access != FieldAccess::Read;
        edge.ForEachRun([&](const Run& run) {
          if (run.stride == 1 || run.stride == -1 || run.stride == 0) {
            uses.push_back({run.var, run.Lowest(), run.Highest() + 1, vertex, edge.field, write});
            return;
          }
          for (uint64_t i = 0; i < run.count; ++i) {
            uses.push_back({run.var, run.At(i), run.At(i) + 1, vertex, edge.field, write});
          }
        });
      });
    }
    std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return std::tie(a.var, a.begin) < std::tie(b.var, b.begin);
    });
    // The write, and the two reads of different vertices, that reach furthest.
    const Use* write = nullptr;
    const Use* reads[2] = {nullptr, nullptr};
    for (const Use& use : uses) {
      if (write != nullptr && write->var != use.var) write = nullptr;
      for (const Use*& read : reads) {
        if (read != nullptr && read->var != use.var) read = nullptr;
      }
      const auto meets = [&](const Use* other) {
        return other != nullptr && other->vertex != use.vertex && use.begin < other->end;
      };
      if (meets(write)) Conflict(data, *write, use);
      if (use.write) {
        for (const Use* read : reads) {
          if (meets(read)) Conflict(data, use, *read);
        }
        if (write == nullptr || use.end > write->end) write = &use;
      } else if (reads[0] == nullptr || use.end > reads[0]->end || reads[0]->vertex == use.vertex) {
        if (reads[0] != nullptr && reads[0]->vertex != use.vertex) reads[1] = reads[0];
        if (reads[0] == nullptr || reads[0]->vertex != use.vertex || use.end > reads[0]->end) {
          reads[0] = &use;
        }
      } else if (reads[1] == nullptr || use.end > reads[1]->end) {
        reads[1] = &use;
      }
    }
  }

  [[noreturn]] void Conflict(const ComputeSetData& data, const Use& write, const Use& other) const {
    const Vertex& vertex = graph_.vertices[write.vertex];
    const int64_t begin = std::max(write.begin, other.begin);
    const int64_t end = std::min(write.end, other.end);
    throw graph_cycle_error(Prefix(data.location) + "Field " + vertex.type->name + "." +
                            vertex.type->fields[write.field].name + " writes to elements [" +
                            std::to_string(begin) + ":" + std::to_string(end) + ") of variable '" +
                            graph_.variables[write.var].name + "' that are " +
                            (other.write ? "written to" : "read") +
                            " elsewhere in same compute set '" + data.name + "'.");
  }

  // ---- programs

  int64_t Here() const { return static_cast<int64_t>(result_->instructions.size()); }

  int64_t Add(Instruction instruction) {
    result_->instructions.push_back(instruction);
    return Here() - 1;
  }

  // The number of a step in the profile.
  uint32_t AddStep(StepProfile step) {
    costs_.profile()->steps.push_back(std::move(step));
    return static_cast<uint32_t>(costs_.profile()->steps.size() - 1);
  }

  void GoTo(int64_t at, int64_t target) { result_->instructions[at].b = target; }

  int64_t AddBlock(CopyBlock block) {
    result_->copies.push_back(std::move(block));
    return static_cast<int64_t>(result_->copies.size()) - 1;
  }

  int64_t PlaceOfElement(const Tensor& tensor) {
    return static_cast<int64_t>(*PlaceOf(*Access::View(tensor)));
  }

  Argument ArgumentOf(const Tensor& tensor, bool written) {
    const View& view = *Access::View(tensor);
    const size_t size = SizeOf(view.type);
    Argument argument{view.type, view.shape, 0, view.NumElements() * size, {}, {}};
    const std::optional<uint64_t> place = PlaceOf(view);
    if (place.has_value()) {
      argument.place = *place;
      return argument;
    }
    argument.place = Reserve(argument.bytes);
    const Places contiguous = Contiguous(argument.place, view.NumElements(), size);
    const Places places = PlacesOf(view);
    if (written) {
      argument.after = Pair(contiguous, places, static_cast<uint32_t>(size));
    }
    argument.before = Pair(places, contiguous, static_cast<uint32_t>(size));
    return argument;
  }

  void Emit(const program::Program& program) {
    const std::shared_ptr<ProgramNode>& node = Access::Node(program);
    if (node != nullptr) Emit(*node);
  }

  void Emit(const ProgramNode& node) {
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const program::Program& child : node.children) Emit(child);
        return;
      case ProgramKind::kExecute:
        EmitExecute(node);
        for (const program::Program& op : graph_.compute_sets[node.number].ops) Emit(op);
        return;
      case ProgramKind::kCopy:
        EmitCopy(node);
        return;
      case ProgramKind::kStreamToDevice:
      case ProgramKind::kStreamToHost:
        EmitStream(node);
        return;
      case ProgramKind::kRemoteRead:
      case ProgramKind::kRemoteWrite:
        EmitRemote(node);
        return;
      case ProgramKind::kCrossReplicaCopy:
        EmitReplicaCopy(node);
        return;
      case ProgramKind::kRepeat:
        EmitRepeat(node);
        return;
      case ProgramKind::kLoop:
        EmitLoop(node);
        return;
      case ProgramKind::kWhile:
        EmitWhile(node);
        return;
      case ProgramKind::kIf:
        EmitIf(node);
        return;
      case ProgramKind::kSwitch:
        EmitSwitch(node);
        return;
      case ProgramKind::kCall:
        EmitCall(node);
        return;
      case ProgramKind::kHostCall:
        EmitHostCall(node);
        return;
      case ProgramKind::kLibraryOp:
      case ProgramKind::kCollectiveOp:
        EmitLibraryOp(node);
        return;
      case ProgramKind::kPrint:
        result_->prints.push_back({node.text, node.format, ArgumentOf(node.inputs[0], false)});
        Add({Op::kPrint, static_cast<int64_t>(result_->prints.size()) - 1});
        return;
      case ProgramKind::kCycleStamp:
        Add({Op::kCycleStamp, PlaceOfElement(node.outputs[0]),
             node.inputs.empty() ? -1 : PlaceOfElement(node.inputs[0])});
        return;
      case ProgramKind::kFloatingPoint:
        Add({Op::kFloatingPoint, PlaceOfElement(node.outputs[0]), node.clear, node.set});
        return;
      case ProgramKind::kNothing:
        return;
      case ProgramKind::kAbort:
        EmitAbort(node);
        return;
    }
  }

  void EmitExecute(const ProgramNode& node) {
    const auto [code, step] = ComputeSetOf(node.number);
    Add({Op::kExecute, code, node.outputs.empty() ? -1 : PlaceOfElement(node.outputs[0]), -1,
         step});
  }

  void EmitCopy(const ProgramNode& node) {
    const View& from = *Access::View(node.inputs[0]);
    const View& to = *Access::View(node.outputs[0]);
    const uint32_t size = static_cast<uint32_t>(SizeOf(from.type));
    const uint32_t step = AddStep(costs_.OfCopy(node.name, from, to));
    if (!node.inputs[0].intersectsWith(node.outputs[0])) {
      Add({Op::kCopy, AddBlock(Pair(PlacesOf(from), PlacesOf(to), size)), -1, -1, step});
      return;
    }
    // All is read before it is written.
    const uint64_t count = from.NumElements();
    const Places buffer = Contiguous(Reserve(count * size), count, size);
    Add({Op::kCopy, AddBlock(Pair(PlacesOf(from), buffer, size))});
    Add({Op::kCopy, AddBlock(Pair(buffer, PlacesOf(to), size)), -1, -1, step});
  }

  void EmitStream(const ProgramNode& node) {
    const bool in = node.kind == ProgramKind::kStreamToDevice;
    const View& view = *Access::View(in ? node.outputs[0] : node.inputs[0]);
    const size_t size = SizeOf(view.type);
    const Places host = Contiguous(0, view.NumElements(), size);
    const Places device = PlacesOf(view);
    const int64_t block =
        AddBlock(Pair(in ? host : device, in ? device : host, static_cast<uint32_t>(size)));
    const uint32_t step = AddStep(costs_.OfHostTransfer(
        "StreamCopy", graph_.streams[node.number]->handle, view.NumElements() * size));
    Add({in ? Op::kStreamIn : Op::kStreamOut, node.number, block, -1, step});
  }

  void EmitRemote(const ProgramNode& node) {
    const bool read = node.kind == ProgramKind::kRemoteRead;
    const View& view = *Access::View(read ? node.outputs[0] : node.inputs[0]);
    const size_t size = SizeOf(view.type);
    const Places host = Contiguous(0, view.NumElements(), size);
    const Places device = PlacesOf(view);
    const int64_t block =
        AddBlock(Pair(read ? host : device, read ? device : host, static_cast<uint32_t>(size)));
    const size_t rows_at = read ? 0 : 1;
    int64_t rows = -1;
    if (node.inputs.size() > rows_at) {
      CallCode call;
      call.inputs.push_back(ArgumentOf(node.inputs[rows_at], false));
      result_->calls.push_back(std::move(call));
      rows = static_cast<int64_t>(result_->calls.size()) - 1;
    }
    const uint32_t step = AddStep(costs_.OfHostTransfer(
        "RemoteBufferCopy", graph_.buffers[node.number]->handle, view.NumElements() * size));
    Add({read ? Op::kRemoteRead : Op::kRemoteWrite, node.number, block, rows, step});
  }

  void EmitReplicaCopy(const ProgramNode& node) {
    const View& from = *Access::View(node.inputs[0]);
    const View& to = *Access::View(node.outputs[0]);
    const uint32_t size = static_cast<uint32_t>(SizeOf(from.type));
    const uint64_t count = from.NumElements();
    const Places buffer = Contiguous(0, count, size);
    ReplicaCopyCode code{Pair(PlacesOf(from), buffer, size),
                         Pair(buffer, PlacesOf(to), size),
                         count * size,
                         {node.replicas.begin(), node.replicas.end()}};
    std::vector<bool> written(graph_.replicas, false);
    for (const auto& [source, target] : code.replicas) {
      if (source >= graph_.replicas || target >= graph_.replicas || written[target]) {
        throw graph_replication_error(
            Prefix(node.location) + "CrossReplicaCopy: replica " + std::to_string(source) +
            " cannot be copied to replica " + std::to_string(target) + ": the graph has " +
            std::to_string(graph_.replicas) + " replicas, and each may be written once.");
      }
      written[target] = true;
    }
    result_->replica_copies.push_back(std::move(code));
    Add({Op::kReplicaCopy, static_cast<int64_t>(result_->replica_copies.size()) - 1, -1, -1,
         AddStep(costs_.OfOp(node, true))});
  }

  void EmitRepeat(const ProgramNode& node) {
    if (node.number == 0) return;
    const int64_t counter = result_->counters++;
    Add({Op::kLoopBegin, counter, node.number});
    const int64_t begin = Here();
    Emit(node.children[0]);
    Add({Op::kLoopEnd, counter, begin});
  }

  void EmitLoop(const ProgramNode& node) {
    const int64_t begin = Here();
    Emit(node.children[0]);
    Add({Op::kJump, -1, begin});
  }

  void EmitWhile(const ProgramNode& node) {
    const int64_t begin = Here();
    Emit(node.children[0]);
    const int64_t exit =
        Add({node.flag ? Op::kJumpIfZero : Op::kJumpIfNotZero, PlaceOfElement(node.inputs[0]), -1,
             static_cast<int64_t>(SizeOf(node.inputs[0].elementType()))});
    Emit(node.children[1]);
    Add({Op::kJump, -1, begin});
    GoTo(exit, Here());
  }

  void EmitIf(const ProgramNode& node) {
    const int64_t branch = Add({Op::kJumpIfZero, PlaceOfElement(node.inputs[0]), -1,
                                static_cast<int64_t>(SizeOf(node.inputs[0].elementType()))});
    Emit(node.children[0]);
    const int64_t end = Add({Op::kJump});
    GoTo(branch, Here());
    Emit(node.children[1]);
    GoTo(end, Here());
  }

  void EmitSwitch(const ProgramNode& node) {
    const int64_t table = static_cast<int64_t>(result_->switches.size());
    result_->switches.emplace_back();
    Add({Op::kSwitch, table, -1, PlaceOfElement(node.inputs[0])});
    std::vector<int64_t> ends;
    SwitchCode code;
    for (size_t i = 0; i < node.values.size(); ++i) {
      code.cases.push_back({node.values[i], Here()});
      Emit(node.children[i + 1]);
      ends.push_back(Add({Op::kJump}));
    }
    code.otherwise = Here();
    if (node.flag) {
      result_->aborts.push_back({"Switch: the control has a value without a case."});
      Add({Op::kAbort, static_cast<int64_t>(result_->aborts.size()) - 1});
    } else {
      Emit(node.children[0]);
    }
    for (const int64_t end : ends) GoTo(end, Here());
    result_->switches[table] = std::move(code);
  }

  void EmitCall(const ProgramNode& node) {
    if (node.number >= graph_.functions.size()) {
      throw control_program_error(Prefix(node.location) +
                                  "Call: the function is not one of this graph.");
    }
    size_t index = 0;
    while (index < functions_.size() && functions_[index].id != node.number) ++index;
    if (index == functions_.size()) functions_.push_back({node.number, -1});
    calls_.push_back({Add({Op::kCall}), index});
  }

  void EmitHostCall(const ProgramNode& node) {
    const HostFunctionData& function = graph_.host_functions.at(node.number);
    CallCode call;
    call.name = function.handle;
    CheckHostArguments(node, function.inputs, node.inputs);
    CheckHostArguments(node, function.outputs, node.outputs);
    for (const Tensor& tensor : node.inputs) call.inputs.push_back(ArgumentOf(tensor, false));
    for (const Tensor& tensor : node.outputs) call.outputs.push_back(ArgumentOf(tensor, true));
    result_->calls.push_back(std::move(call));
    Add({Op::kHostCall, static_cast<int64_t>(result_->calls.size()) - 1});
  }

  void EmitLibraryOp(const ProgramNode& node) {
    LibraryOpCode op;
    op.collective = node.kind == ProgramKind::kCollectiveOp;
    op.name = node.name;
    op.spec.name = node.text;
    op.spec.parameters = node.parameters;
    for (const Tensor& tensor : node.outputs) {
      op.outputs.push_back(ArgumentOf(tensor, true));
      op.spec.outputs.push_back({tensor.elementType(), tensor.shape()});
    }
    for (const Tensor& tensor : node.inputs) {
      op.inputs.push_back(InputOf(tensor, node, op.outputs));
      op.spec.inputs.push_back({tensor.elementType(), tensor.shape()});
    }
    const Op op_kind = op.collective ? Op::kMeet : Op::kLibraryOp;
    result_->library_ops.push_back(std::move(op));
    Add({op_kind, static_cast<int64_t>(result_->library_ops.size()) - 1, -1, -1,
         AddStep(costs_.OfOp(node, op_kind == Op::kMeet))});
  }

  // An input of a library's op: a copy of it where the op writes it before it has read it all.
  Argument InputOf(const Tensor& tensor, const ProgramNode& node,
                   const std::vector<Argument>& outputs) {
    Argument argument = ArgumentOf(tensor, false);
    if (!argument.before.empty()) return argument;
    bool copied = false;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool same =
          node.flag && outputs[i].place == argument.place && outputs[i].bytes == argument.bytes;
      copied |= !same && outputs[i].before.empty() && tensor.intersectsWith(node.outputs[i]);
    }
    if (!copied) return argument;
    const uint64_t from = argument.place;
    const size_t size = SizeOf(argument.type);
    const uint64_t count = argument.bytes / size;
    argument.place = Reserve(argument.bytes);
    argument.before = Pair(Contiguous(from, count, size), Contiguous(argument.place, count, size),
                           static_cast<uint32_t>(size));
    return argument;
  }

  static void CheckHostArguments(const ProgramNode& node,
                                 const std::vector<HostFunctionArgument>& declared,
                                 const std::vector<Tensor>& given) {
    bool fits = declared.size() == given.size();
    for (size_t i = 0; fits && i < given.size(); ++i) {
      fits = std::get<0>(declared[i]) == given[i].elementType() &&
             std::get<1>(declared[i]) == given[i].numElements();
    }
    if (fits) return;
    throw control_program_error(Prefix(node.location) +
                                "Call: the tensors do not fit the "
                                "arguments that the host function was declared with.");
  }

  void EmitAbort(const ProgramNode& node) {
    int64_t skip = -1;
    if (!node.inputs.empty()) {
      skip = Add({Op::kJumpIfZero, PlaceOfElement(node.inputs[0]), -1,
                  static_cast<int64_t>(SizeOf(node.inputs[0].elementType()))});
    }
    for (const Tensor& tensor : node.outputs) {
      result_->prints.push_back({node.text, PrintTensorFmt(), ArgumentOf(tensor, false)});
      Add({Op::kPrint, static_cast<int64_t>(result_->prints.size()) - 1});
    }
    result_->aborts.push_back({node.text.empty() ? "Abort" : node.text});
    Add({Op::kAbort, static_cast<int64_t>(result_->aborts.size()) - 1});
    if (skip >= 0) GoTo(skip, Here());
  }

  void AddHostAccess(const std::string& handle, const HostTensor& tensor) {
    const View& view = *tensor.view;
    const uint32_t size = static_cast<uint32_t>(SizeOf(view.type));
    const Places host = Contiguous(0, view.NumElements(), size);
    const Places device = PlacesOf(view);
    HostAccess access{tensor.write ? Pair(host, device, size) : Pair(device, host, size),
                      view.NumElements() * size};
    (tensor.write ? result_->host_writes : result_->host_reads)[handle] = std::move(access);
  }

  struct FunctionCode {
    unsigned id;
    int64_t entry;
  };

  const GraphData& graph_;
  const bool checked_ = ChecksAreOn();
  CostModel costs_;
  std::shared_ptr<ExecutableData> result_;
  std::vector<uint64_t> places_;  // of the variables
  std::unordered_map<unsigned, UsedComputeSet> compute_sets_;
  std::vector<FunctionCode> functions_;
  std::vector<std::pair<int64_t, size_t>> calls_;
};

}  // namespace

std::shared_ptr<ExecutableData> Lower(const GraphData& graph,
                                      const std::vector<program::Program>& programs,
                                      const OptionFlags& options) {
  return Lowering(graph, options).Lower(programs);
}

}  // namespace poplar::core
