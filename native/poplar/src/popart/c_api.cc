// The C interface by which the Python front ends build, differentiate and lower ops.
//
// Functions do not throw: those that return a pointer return null, the others a negative number,
// and `popart_error_*` tells the exception. Texts are valid until the next call of the thread.
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "built_in_ops.h"
#include "lowering.h"
#include "popart/detail/builtinop.hpp"
#include "popart/graph.hpp"
#include "popart/ir.hpp"
#include "popart/opmanager.hpp"
#include "popart/shapeinference.hpp"
#include "popart/transforms/transform.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/exceptions.hpp"
#include "registries.h"
#include "serialiser.h"

namespace popart {
namespace {

struct Failure {
  std::string kind, text;
};

Failure& LastFailure() {
  thread_local Failure failure;
  return failure;
}

// Keeps the exception that is handled, by the name of its class in Python.
void Keep() {
  Failure& failure = LastFailure();
  const auto keep = [&failure](const char* kind, const std::exception& e) {
    failure = {kind, e.what()};
  };
  try {
    throw;
  } catch (const internal_error& e) {
    keep("popart_internal_exception", e);
  } catch (const runtime_error& e) {
    keep("popart_runtime_error", e);
  } catch (const error& e) {
    keep("popart_exception", e);
  } catch (const poplar::application_runtime_error& e) {
    keep("poplar_application_runtime_error", e);
  } catch (const poplar::runtime_error& e) {
    keep("poplar_runtime_error", e);
  } catch (const poplar::poplar_error& e) {
    keep("poplar_exception", e);
  } catch (const poputil::poplibs_error& e) {
    keep("poplibs_exception", e);
  } catch (const std::exception& e) {
    keep("RuntimeError", e);
  } catch (...) {
    failure = {"RuntimeError", "an exception that is no std::exception"};
  }
}

template <typename T, typename Function>
T Guarded(T failed, Function function) {
  try {
    return function();
  } catch (...) {
    Keep();
    return failed;
  }
}

const char* Kept(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

// --- JSON ---

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      quoted += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

template <typename Range, typename Text>
std::string List(const Range& range, Text text) {
  std::string list = "[";
  for (const auto& item : range) list += (list.size() > 1 ? "," : "") + text(item);
  return list + "]";
}

std::string InfoJson(const TensorInfo& info) {
  const std::string type = info.isSet() ? Quoted(info.data_type()) : "null";
  const std::string shape = List(info.shape(), [](int64_t dim) { return std::to_string(dim); });
  return type + "," + shape;
}

std::string TensorsJson(const TensorIndexMap& tensors) {
  return List(tensors.tensorMap(), [](const std::pair<const int, Tensor*>& entry) {
    return "[" + std::to_string(entry.first) + "," + Quoted(entry.second->id) + "," +
           InfoJson(entry.second->info) + "]";
  });
}

// Whether an op draws random numbers, and no seed is connected yet.
bool NeedsSeed(const Op& op) {
  return op.requiresRandomSeed() && !op.hasInput(op.getSeedInIndex());
}

std::string OpJson(const Op& op) {
  std::vector<int> modified;
  for (const auto& entry : op.input->tensorMap()) {
    if (op.modifiesIndex(entry.first)) modified.push_back(entry.first);
  }
  return "{\"id\":" + std::to_string(op.id) + ",\"domain\":" + Quoted(op.opid.domain) +
         ",\"type\":" + Quoted(op.opid.type) + ",\"version\":" + std::to_string(op.opid.version) +
         ",\"name\":" + Quoted(op.getName()) + ",\"debug_name\":" + Quoted(op.debugName()) +
         ",\"attributes\":" + Quoted(AttributesText(op)) + ",\"inputs\":" + TensorsJson(*op.input) +
         ",\"outputs\":" + TensorsJson(*op.output) + ",\"optional\":" +
         List(op.optionalInputs(), [](int index) { return std::to_string(index); }) +
         ",\"modified\":" + List(modified, [](int index) { return std::to_string(index); }) +
         ",\"seed\":" + (NeedsSeed(op) ? "true" : "false") +
         ",\"side_effect\":" + (op.hasSideEffect() ? "true" : "false") + "}";
}

// --- Handles ---

// Both return 0, or another number after a call of `popart_fail`.
using FindTensor = int (*)(const char* graph, const char* id);
using Created = int (*)(const char* graph, void* op);

// Asks Python for tensors, and tells it of ops.
class PythonFrontEnd : public detail::FrontEnd {
 public:
  PythonFrontEnd(FindTensor find, Created created) : find_(find), created_(created) {}
  void findTensor(Graph& graph, const TensorId& id) override {
    Check(find_(graph.id.str().c_str(), id.c_str()));
  }
  void created(Op& op) override { Check(created_(op.getGraph().id.str().c_str(), &op)); }

 private:
  static void Check(int status) {
    if (status != 0) throw error("{}", LastFailure().text);
  }

  FindTensor find_;
  Created created_;
};

// A program, which lowerings of its ops keep alive.
struct IrHandle {
  std::shared_ptr<Ir> ir;
};

void SetReplicas(Ir& ir, int replicas) {
  SessionOptions& options = ir.getSessionOptions();
  options.enableReplicatedGraphs = replicas > 1;
  options.replicatedGraphCount = replicas;
  options.globalReplicationFactor = replicas;
}

// Ids by index, "" where there is none.
std::string IdsJson(const TensorIndexMap& tensors) {
  std::vector<std::string> ids(static_cast<size_t>(tensors.maxIndex() + 1));
  for (const auto& entry : tensors.tensorIdMap()) {
    ids[static_cast<size_t>(entry.first)] = Quoted(entry.second);
  }
  return List(ids, [](const std::string& id) { return id.empty() ? "\"\"" : id; });
}

// An op of a graph after patterns; what `popart_describe` tells besides is not repeated.
std::string ScheduledJson(Op* op) {
  const Op::Settings& settings = op->settings;
  const auto number = [](bool is_set, int64_t value) {
    return is_set ? std::to_string(value) : std::string("null");
  };
  return "{\"handle\":" + std::to_string(reinterpret_cast<uintptr_t>(op)) +
         ",\"id\":" + std::to_string(op->id) + ",\"domain\":" + Quoted(op->opid.domain) +
         ",\"type\":" + Quoted(op->opid.type) + ",\"name\":" + Quoted(op->getName()) +
         ",\"built_in\":" + (IsBuiltIn(*op) ? "true" : "false") +
         ",\"ipu\":" + number(op->hasVirtualGraphId(), settings.vgraphId ? *settings.vgraphId : 0) +
         ",\"stage\":" +
         number(op->hasPipelineStage(), settings.pipelineStage ? *settings.pipelineStage : 0) +
         ",\"inputs\":" + IdsJson(*op->input) + ",\"outputs\":" + IdsJson(*op->output) + "}";
}

// Gradient ops that are in no graph yet.
struct Gradients {
  std::vector<std::unique_ptr<Op>> ops;
  Op* forward;
};

std::map<int, TensorId> Ids(int count, const int* indices, const char* const* ids) {
  std::map<int, TensorId> found;
  for (int i = 0; i < count; ++i) found[indices[i]] = ids[i];
  return found;
}

std::vector<TensorId> IdList(int count, const char* const* ids) {
  return std::vector<TensorId>(ids, ids + count);
}

// What a gradient op takes, and gives: `{"in":[[1,0,"GradOut"]],"out":[[0,0]]}`.
std::string GradientJson(const Op& op) {
  const std::string inputs = List(op.gradInputInfo(), [](const GradInOutMapper& mapper) {
    return logging::format("[{},{},\"{}\"]", mapper.iGrad, mapper.iNonGrad, mapper.type);
  });
  const std::string outputs =
      List(op.gradOutToNonGradIn(), [](const std::pair<const int, int>& entry) {
        return logging::format("[{},{}]", entry.first, entry.second);
      });
  return "{\"debug_name\":" + Quoted(op.debugName()) + ",\"in\":" + inputs + ",\"out\":" + outputs +
         ",\"optional\":" +
         List(op.optionalInputs(), [](int index) { return std::to_string(index); }) + "}";
}

}  // namespace
}  // namespace popart

using popart::Attributes;
using popart::Gradients;
using popart::Graph;
using popart::Guarded;
using popart::IrHandle;
using popart::Kept;
using popart::Op;

extern "C" {

#define POPART_EXPORT __attribute__((visibility("default")))

// --- Errors ---

POPART_EXPORT const char* popart_error_kind() { return popart::LastFailure().kind.c_str(); }
POPART_EXPORT const char* popart_error_text() { return popart::LastFailure().text.c_str(); }

// The text of an exception in a function that the library has called.
POPART_EXPORT void popart_fail(const char* text) {
  popart::LastFailure() = {"popart_exception", text};
}

// --- Registries ---

POPART_EXPORT void popart_watch_registrations(void (*watcher)()) {
  popart::WatchRegistrations(watcher);
}

// The version that a model of an opset gets; 0 if no library has the op.
POPART_EXPORT int popart_op_version(const char* domain, const char* type, int opset) {
  return static_cast<int>(popart::OpManager::getOpVersionFromOpSet(domain, type, opset));
}

// All ops as JSON: `[["domain","Type",1], ...]`.
POPART_EXPORT const char* popart_list_ops() {
  return Kept(popart::List(
      popart::OpManager::getSupportedOperations(true), [](const popart::OperatorIdentifier& id) {
        return "[" + popart::Quoted(id.domain) + "," + popart::Quoted(id.type) + "," +
               std::to_string(id.version) + "]";
      }));
}

// --- Attributes ---

POPART_EXPORT Attributes* popart_attributes() { return new Attributes; }
POPART_EXPORT void popart_free_attributes(Attributes* attributes) { delete attributes; }
POPART_EXPORT void popart_set_int(Attributes* attributes, const char* name, int64_t value) {
  attributes->setAttribute(name, value);
}
POPART_EXPORT void popart_set_float(Attributes* attributes, const char* name, float value) {
  attributes->setAttribute(name, value);
}
POPART_EXPORT void popart_set_string(Attributes* attributes, const char* name, const char* value) {
  std::string text = value;
  attributes->setAttribute(name, text);
}
POPART_EXPORT void popart_set_ints(Attributes* attributes, const char* name, int count,
                                   const int64_t* values) {
  std::vector<int64_t> list(values, values + count);
  attributes->setAttribute(name, list);
}
POPART_EXPORT void popart_set_floats(Attributes* attributes, const char* name, int count,
                                     const float* values) {
  std::vector<float> list(values, values + count);
  attributes->setAttribute(name, list);
}
POPART_EXPORT void popart_set_strings(Attributes* attributes, const char* name, int count,
                                      const char* const* values) {
  std::vector<std::string> list(values, values + count);
  attributes->setAttribute(name, list);
}

// --- Programs, graphs, tensors ---

// Both functions may be null: then the graphs have the tensors that are added to them.
POPART_EXPORT IrHandle* popart_ir(int replicas, int training, popart::FindTensor find,
                                  popart::Created created) {
  return Guarded<IrHandle*>(nullptr, [&] {
    auto ir = std::make_shared<popart::Ir>();
    popart::SetReplicas(*ir, replicas);
    ir->setExecutionMode(training != 0 ? popart::Ir::ExecutionMode::Training
                                       : popart::Ir::ExecutionMode::Inference);
    if (find != nullptr) {
      ir->setFrontEnd(
          std::unique_ptr<popart::detail::FrontEnd>(new popart::PythonFrontEnd(find, created)));
    }
    return new IrHandle{ir};
  });
}
POPART_EXPORT void popart_set_replicas(IrHandle* handle, int replicas) {
  popart::SetReplicas(*handle->ir, replicas);
}
// Sets an option of the session that ops ask for; options that they cannot ask for are ignored.
POPART_EXPORT void popart_set_option(IrHandle* handle, const char* name, int64_t value) {
  popart::SessionOptions& options = handle->ir->getSessionOptions();
  const std::map<std::string, bool*> flags = {
      {"enableGradientAccumulation", &options.enableGradientAccumulation},
      {"enablePipelining", &options.enablePipelining},
      {"enableStableNorm", &options.enableStableNorm},
      {"enableStochasticRounding", &options.enableStochasticRounding},
      {"opxAliasChecking", &options.opxAliasChecking},
      {"opxModifyChecking", &options.opxModifyChecking}};
  const auto flag = flags.find(name);
  if (flag != flags.end()) *flag->second = value != 0;
  if (std::string(name) == "accumulationFactor") options.accumulationFactor = value;
}
POPART_EXPORT void popart_free_ir(IrHandle* handle) { delete handle; }

// The graph of an id, which is made if there is none.
POPART_EXPORT Graph* popart_graph(IrHandle* handle, const char* id) {
  return Guarded<Graph*>(nullptr, [&] {
    const popart::GraphId graph = std::string(id);
    return handle->ir->hasGraph(graph) ? &handle->ir->getGraph(graph)
                                       : &handle->ir->createGraph(graph);
  });
}

// Adds a tensor that no op makes. `data` is the value of a constant, and may be null.
POPART_EXPORT int popart_add_tensor(Graph* graph, const char* id, const char* type, int rank,
                                    const int64_t* shape, const void* data) {
  return Guarded(-1, [&] {
    const popart::TensorInfo info(popart::dataTypeFromString(type),
                                  popart::Shape(shape, shape + rank));
    if (data != nullptr) {
      graph->addConstInit(id, info, data, {});
    } else {
      graph->addActGrad(id);
      graph->getTensor(id)->info = info;
    }
    return 0;
  });
}

// --- Ops ---

// Makes, connects and sets up the op of a node. An empty id is an optional input that is missing.
POPART_EXPORT Op* popart_create_op(Graph* graph, const char* domain, const char* type, int opset,
                                   const char* name, const Attributes* attributes, int inputs,
                                   const char* const* input_ids, int outputs,
                                   const char* const* output_ids) {
  return Guarded<Op*>(nullptr, [&] {
    Op* op = popart::OpManager::createOpWithInputs(domain, type, opset, *graph, name, {},
                                                   *attributes, popart::IdList(inputs, input_ids),
                                                   popart::IdList(outputs, output_ids));
    if (op == nullptr) {
      throw popart::error("No class for {}", popart::OperatorIdentifier(domain, type, opset));
    }
    return op;
  });
}

// Makes and connects an op that the front end computes. Its tensors are in the graph.
POPART_EXPORT Op* popart_create_built_in(Graph* graph, const char* domain, const char* type,
                                         int version, const char* name,
                                         const Attributes* attributes, int inputs,
                                         const char* const* input_ids, int outputs,
                                         const char* const* output_ids) {
  return Guarded<Op*>(nullptr, [&] {
    Op::Settings settings(*graph, name);
    settings.setFromAttributes(*attributes);
    const popart::OperatorIdentifier opid(domain, type, static_cast<unsigned>(version));
    std::unique_ptr<Op> made = popart::MakeBuiltIn(opid, settings);
    if (made == nullptr) made.reset(new popart::detail::BuiltInOp(opid, settings));
    Op* op = made.get();
    graph->moveIntoGraph(std::move(made));
    // Not set up: the shapes are those of the front end.
    for (int i = 0; i < inputs; ++i) {
      if (*input_ids[i] != '\0') op->connectInTensor(i, input_ids[i]);
    }
    for (int i = 0; i < outputs; ++i) {
      if (*output_ids[i] != '\0') op->connectOutTensor(i, output_ids[i]);
    }
    return op;
  });
}

// Connects the seed of an op that draws random numbers.
POPART_EXPORT int popart_connect_seed(Op* op, const char* id) {
  return Guarded(-1, [&] {
    op->connectInTensor(op->getSeedInIndex(), id);
    return 0;
  });
}

// An op as JSON.
POPART_EXPORT const char* popart_describe(const Op* op) {
  return Guarded<const char*>(nullptr, [&] { return Kept(popart::OpJson(*op)); });
}

// Runs the shape inference function of a node. `types` and `shapes` are those of the inputs, whose
// ranks follow each other. Returns `[["FLOAT",[2]], ...]`, or "" if no function is registered.
POPART_EXPORT const char* popart_infer_shapes(const char* domain, const char* type, int opset,
                                              const Attributes* attributes, int inputs,
                                              const char* const* types, const int* ranks,
                                              const int64_t* shapes, int outputs) {
  return Guarded<const char*>(nullptr, [&] {
    const popart::ShapeInferenceFunction* function =
        popart::FindShapeInference(domain, type, opset);
    if (function == nullptr) return Kept("");
    std::map<int, popart::TensorInfo> infos;
    for (int i = 0; i < inputs; shapes += ranks[i++]) {
      if (*types[i] == '\0') continue;
      infos[i] = {popart::dataTypeFromString(types[i]), popart::Shape(shapes, shapes + ranks[i])};
    }
    popart::ShapeInferenceContext context(infos, *attributes, outputs);
    (*function)(context);
    std::vector<popart::TensorInfo> found;
    for (int i = 0; i < outputs; ++i) found.push_back(context.outInfo(i));
    return Kept(popart::List(
        found, [](const popart::TensorInfo& info) { return "[" + popart::InfoJson(info) + "]"; }));
  });
}

// Keeps an op for embeddings, and returns its key. Ops with a title that is complete and the same
// are computed by the first of them.
POPART_EXPORT const char* popart_register_lowering(IrHandle* handle, Op* op, const char* title,
                                                   int complete) {
  return Guarded<const char*>(nullptr, [&] {
    return Kept(popart::RegisterLowering(handle->ir, op, title, complete != 0));
  });
}

// Lowers the op of a key to a graph that is dropped, so that its mistakes are told.
POPART_EXPORT int popart_check_lowering(const char* key) {
  return Guarded(-1, [&] {
    popart::CheckLowering(key);
    return 0;
  });
}

// --- Patterns and transforms ---

// Patterns as JSON, with whether they are on by default and have to be on.
POPART_EXPORT const char* popart_list_patterns() {
  return Kept(popart::List(
      popart::PreAliasPatternManager::getNames(), [](const std::string& name) -> std::string {
        const auto* info = popart::PreAliasPatternManager::find(name);
        return "[" + popart::Quoted(name) + (info->enabledByDefault ? ",true" : ",false") +
               (info->mandatory ? ",true]" : ",false]");
      }));
}

// Says which tensors are anchored, and which is the loss ("" for inference).
POPART_EXPORT int popart_set_kept(Graph* graph, const char* loss, int count,
                                  const char* const* anchors) {
  return Guarded(-1, [&] {
    popart::AnchorReturnTypeMap kept;
    for (const std::string& id : popart::IdList(count, anchors)) kept[id] = {};
    graph->getIr().setDataFlow(popart::DataFlow(1, kept));
    graph->setLoss(loss);
    return 0;
  });
}
// Says of what kind a tensor is that no op makes.
POPART_EXPORT int popart_set_tensor_type(Graph* graph, const char* id, int type) {
  return Guarded(-1, [&] {
    graph->getTensor(id)->setTensorType(static_cast<popart::TensorType>(type));
    return 0;
  });
}
// Applies patterns to a graph until none changes it.
POPART_EXPORT int popart_apply_patterns(Graph* graph, int count, const char* const* names) {
  return Guarded(-1, [&] {
    graph->getIr().setPatterns(popart::Patterns(popart::IdList(count, names)));
    graph->getIr().applyPreAliasPatterns(*graph);
    return 0;
  });
}
// Applies a transform; returns 0 if there is no such transform.
POPART_EXPORT int popart_apply_transform(Graph* graph, const char* name) {
  return Guarded(-1, [&] {
    if (!popart::Transform::isRegistered(name)) return 0;
    popart::Transform::applyTransform(popart::Transform::getIdFromName(name), *graph);
    return 1;
  });
}
// The ops of a graph in an order in which they can run, as JSON.
POPART_EXPORT const char* popart_schedule(Graph* graph) {
  return Guarded<const char*>(nullptr, [&] {
    return Kept(popart::List(graph->getOpSchedule({}, popart::RequireOptimalSchedule::No),
                             [](Op* op) { return popart::ScheduledJson(op); }));
  });
}
// Tensors of a kind that no op makes, as JSON: `[["id","FLOAT",[2]],...]`.
POPART_EXPORT const char* popart_sources(Graph* graph, int type) {
  return Guarded<const char*>(nullptr, [&] {
    std::vector<const popart::Tensor*> found;
    for (const std::string& id : graph->getTensors().getAllTensorIds()) {
      const popart::Tensor* tensor = graph->getTensor(id);
      if (!tensor->hasProducer() && static_cast<int>(tensor->tensorType()) == type) {
        found.push_back(tensor);
      }
    }
    return Kept(popart::List(found, [](const popart::Tensor* tensor) {
      return "[" + popart::Quoted(tensor->id) + "," + popart::InfoJson(tensor->info) + "]";
    }));
  });
}
// The elements of a tensor that a library has made.
POPART_EXPORT const void* popart_tensor_data(Graph* graph, const char* id) {
  return Guarded<const void*>(
      nullptr, [&]() -> const void* { return graph->getTensor(id)->tensorData()->data(); });
}

// --- Gradients ---

POPART_EXPORT Gradients* popart_gradients(Op* op) {
  return Guarded<Gradients*>(nullptr, [&] { return new Gradients{op->getGradOps(), op}; });
}
POPART_EXPORT void popart_free_gradients(Gradients* gradients) { delete gradients; }
POPART_EXPORT int popart_gradient_count(const Gradients* gradients) {
  return static_cast<int>(gradients->ops.size());
}
// What the gradient op of a number takes and gives, as JSON.
POPART_EXPORT const char* popart_describe_gradient(const Gradients* gradients, int number) {
  return Guarded<const char*>(
      nullptr, [&] { return Kept(popart::GradientJson(*gradients->ops.at(number))); });
}
// Moves a gradient op to a graph and connects it.
POPART_EXPORT Op* popart_connect_gradient(Gradients* gradients, int number, Graph* graph,
                                          int inputs, const int* input_indices,
                                          const char* const* input_ids, int outputs,
                                          const int* output_indices,
                                          const char* const* output_ids) {
  return Guarded<Op*>(nullptr, [&] {
    Op* op = gradients->ops.at(number).get();
    graph->moveIntoGraph(std::move(gradients->ops.at(number)));
    graph->connect(op, popart::Ids(inputs, input_indices, input_ids),
                   popart::Ids(outputs, output_indices, output_ids));
    return op;
  });
}

}  // extern "C"
