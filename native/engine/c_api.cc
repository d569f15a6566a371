// The functions that Python calls through ctypes (tensorflow_ipu/runtime/native.py).
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/abstract_values.h"
#include "engine/device_state.h"
#include "engine/error_text.h"
#include "engine/events.h"
#include "engine/feeds/feed_manager.h"
#include "engine/feeds/host_arrays.h"
#include "engine/instances.h"
#include "engine/interpreter.h"
#include "engine/interrupts.h"
#include "engine/loaded_programs.h"
#include "engine/placed_clusters.h"
#include "engine/poplar_sdk.h"
#include "engine/program.h"
#include "engine/running_launches.h"
#include "engine/user_op.h"
#include "engine/user_program.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/version.h"

#define TFIPU_EXPORT extern "C" __attribute__((visibility("default")))

using tensorflow_ipu::CompileRequest;
using tensorflow_ipu::DeviceState;

namespace {

// A copy that the caller gives back with tfipu_free.
char* CopyText(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::string ShapeText(const tensorflow::TensorShape& shape) {
  std::string text;
  for (int i = 0; i < shape.dims(); ++i) {
    tensorflow::strings::StrAppend(&text, i > 0 ? "," : "", shape.dim_size(i));
  }
  return text;
}

}  // namespace

// The TensorFlow version whose headers this library was built with.
TFIPU_EXPORT const char* tfipu_tensorflow_version() { return TFIPU_TENSORFLOW_VERSION; }

TFIPU_EXPORT void tfipu_free(char* text) { std::free(text); }

TFIPU_EXPORT void tfipu_set_compiler(tensorflow_ipu::CompileCallback callback) {
  tensorflow_ipu::SetCompiler(callback);
}

// The question of a request: a line "cluster ordinal", then a line "variable? type dims" each.
TFIPU_EXPORT char* tfipu_request_text(void* pointer) {
  const auto* request = static_cast<CompileRequest*>(pointer);
  std::string text = tensorflow::strings::StrCat(request->cluster, " ", request->ordinal, "\n");
  for (const tensorflow_ipu::Argument& argument : request->arguments) {
    tensorflow::strings::StrAppend(&text, argument.is_variable ? 1 : 0, " ",
                                   static_cast<int>(argument.dtype), " ", ShapeText(argument.shape),
                                   "\n");
  }
  return CopyText(text);
}

TFIPU_EXPORT void tfipu_reply(void* pointer, const char* id, const char* library, int64_t size,
                              const char* entry, int replicas, int instances, int instance,
                              const char* fingerprint, int on_device) {
  auto* request = static_cast<CompileRequest*>(pointer);
  tensorflow::FunctionDefLibrary proto;
  if (!proto.ParseFromArray(library, static_cast<int>(size))) {
    request->status = tensorflow::errors::Internal("The compiled program cannot be read.");
    return;
  }
  auto program = std::make_shared<tensorflow_ipu::Program>();
  program->id = id;
  program->entry = entry;
  program->replicas = replicas;
  program->instances = instances;
  program->instance = instance;
  program->fingerprint = fingerprint;
  program->on_device = on_device != 0;
  program->library = std::make_unique<tensorflow::FunctionLibraryDefinition>(
      tensorflow::OpRegistry::Global(), proto);
  request->program = std::move(program);
  request->status = tensorflow::OkStatus();
}

TFIPU_EXPORT void tfipu_reply_error(void* pointer, int code, const char* message) {
  static_cast<CompileRequest*>(pointer)->status =
      tensorflow::Status(static_cast<absl::StatusCode>(code), message);
}

TFIPU_EXPORT void tfipu_set_error_writer(tensorflow_ipu::ErrorCallback callback) {
  tensorflow_ipu::SetErrorWriter(callback);
}

// The question of an error: the cluster in a line, then the message.
TFIPU_EXPORT char* tfipu_error_text(void* pointer) {
  const auto* request = static_cast<tensorflow_ipu::ErrorRequest*>(pointer);
  return CopyText(tensorflow::strings::StrCat(request->cluster, "\n", request->message));
}

TFIPU_EXPORT void tfipu_reply_error_text(void* pointer, const char* message) {
  static_cast<tensorflow_ipu::ErrorRequest*>(pointer)->message = message;
}

// Calls `callback` where the program needs a value, in a process that only plans.
TFIPU_EXPORT void tfipu_set_value_needed(tensorflow_ipu::ValueNeededCallback callback) {
  tensorflow_ipu::AbstractValues::SetValueNeeded(callback);
}

// Whether an address is that of an abstract tensor.
TFIPU_EXPORT int tfipu_is_abstract(const void* address) {
  return tensorflow_ipu::AbstractValues::HasAddress(address) ? 1 : 0;
}

// Attaches devices: everything of the former configuration is dropped.
TFIPU_EXPORT void tfipu_attach(int64_t generation, int num_devices) {
  tensorflow_ipu::Attachment::Set(generation, num_devices);
  for (int i = 0; i < tensorflow_ipu::kMaxDevices; ++i) DeviceState::Get(i)->Unload();
  tensorflow_ipu::LoadedPrograms::ForgetAll();
  tensorflow_ipu::FeedManager::ResetAll();
  tensorflow_ipu::Statistics::Clear();
}

// Lets TensorFlow list IPUs as physical devices, which a program that uses none does not see.
TFIPU_EXPORT void tfipu_list_devices() { tensorflow_ipu::Attachment::List(); }

// Waits until no program runs, but not longer than some time for each device. Returns whether.
TFIPU_EXPORT int tfipu_wait_idle(int64_t microseconds) {
  for (int i = 0; i < tensorflow_ipu::kMaxDevices; ++i) {
    if (!DeviceState::Get(i)->WaitIdle(std::chrono::microseconds(microseconds))) return 0;
  }
  return 1;
}

// The functions of a Cluster that Python did not make, serialised; the first is its entry. Returns
// null when the Cluster is gone.
TFIPU_EXPORT char* tfipu_placed_library(const char* cluster, int64_t* size) {
  const std::string library = tensorflow_ipu::PlacedClusters::Library(cluster).SerializeAsString();
  *size = static_cast<int64_t>(library.size());
  return library.empty() ? nullptr : CopyText(library);
}

// Such Clusters that went since the last call, a line each.
TFIPU_EXPORT char* tfipu_gone_clusters() {
  std::string text;
  for (const std::string& cluster : tensorflow_ipu::PlacedClusters::TakeGone()) {
    tensorflow::strings::StrAppend(&text, cluster, "\n");
  }
  return CopyText(text);
}

// Drops what belongs to a Cluster, an Executable or a queue that Python has no more.
TFIPU_EXPORT void tfipu_forget_cluster(const char* cluster) {
  tensorflow_ipu::LoadedPrograms::Forget(cluster);
}

TFIPU_EXPORT void tfipu_forget_executable(const char* executable) {
  tensorflow_ipu::Statistics::Forget(executable);
}

TFIPU_EXPORT void tfipu_drop_feed(const char* name, int ordinal) {
  auto* feeds = tensorflow_ipu::FeedManager::Get(ordinal);
  if (feeds == nullptr) return;
  feeds->DropInfeed(name);
  feeds->DropOutfeed(name);
}

// Has an infeed bring `elements` elements to programs, copied from arrays of the host. Each of the
// `count` tensors of an element has a type, a rank, as many dimensions in `sizes`, and an array; in
// `rows` the row of the array for each element, or that is null.
TFIPU_EXPORT void tfipu_fill_infeed(const char* name, int ordinal, int count, const int* types,
                                    const int* ranks, const int64_t* sizes, int64_t elements,
                                    const void* const* arrays, const int64_t* rows) {
  auto* feeds = tensorflow_ipu::FeedManager::Get(ordinal);
  if (feeds == nullptr) return;
  tensorflow_ipu::InfeedOptions options{name, {}, {}, /*prefetch_depth=*/1};
  for (int i = 0; i < count; ++i) {
    options.types.push_back(static_cast<tensorflow::DataType>(types[i]));
    options.shapes.emplace_back(absl::MakeConstSpan(sizes, ranks[i]));
    sizes += ranks[i];
  }
  feeds->FindOrAddInfeed(options)->Fill(
      tensorflow_ipu::CopyElements(options, elements, arrays, rows));
}

// Moves the whole groups that an outfeed has to arrays of the host, one for each tensor of an
// element, with room for `limit` groups. Returns how many there were: if these are more, they are
// lost. Without arrays, drops them. `rows` has the row for each tensor and replica among those of a
// group, or -1 if it is not wanted; null if all are.
TFIPU_EXPORT int64_t tfipu_take_outfeed(const char* name, int ordinal, int64_t limit,
                                        void* const* arrays, const int64_t* rows) {
  auto* feeds = tensorflow_ipu::FeedManager::Get(ordinal);
  const auto outfeed = feeds == nullptr ? nullptr : feeds->FindOutfeed(name);
  if (outfeed == nullptr) return 0;
  const tensorflow_ipu::OutfeedValues values = outfeed->TakeAll();
  for (size_t i = 0; arrays != nullptr && values.groups <= limit && i < values.types.size(); ++i) {
    values.CopyTo(i, rows == nullptr ? nullptr : rows + i * values.num_replicas, arrays[i]);
  }
  return values.groups;
}

// What lives: loaded programs, running launches, infeeds, outfeeds, executables with statistics.
TFIPU_EXPORT void tfipu_counts(int64_t* counts) {
  counts[0] = tensorflow_ipu::LoadedPrograms::count();
  counts[1] = tensorflow_ipu::RunningLaunches::count();
  counts[2] = tensorflow_ipu::FeedManager::CountInfeeds();
  counts[3] = tensorflow_ipu::FeedManager::CountOutfeeds();
  counts[4] = tensorflow_ipu::Statistics::count();
}

// The functions are those of InterpreterFunctions, in its order.
TFIPU_EXPORT void tfipu_connect(const tensorflow_ipu::InterpreterFunctions* functions,
                                int64_t main_thread, tensorflow_ipu::InterruptPolicy policy) {
  tensorflow_ipu::Interpreter::Connect(*functions, main_thread);
  tensorflow_ipu::SetInterruptPolicy(policy);
}

TFIPU_EXPORT void tfipu_fork(int used) { tensorflow_ipu::Interpreter::Fork(used != 0); }

// Raises in Python what a handler of a signal raised while an op waited. The caller holds the
// interpreter's lock, and looks for an exception afterwards.
TFIPU_EXPORT void tfipu_raise_interrupt() { tensorflow_ipu::Interpreter::Raise(); }

TFIPU_EXPORT void tfipu_stop_launches(int64_t thread) {
  tensorflow_ipu::RunningLaunches::StopThread(
      thread, tensorflow::errors::Cancelled("The launch was stopped by the program."));
}

// For the end of the interpreter: ends compilations, launches, and the reading of datasets, which
// enters the interpreter for those of Python.
TFIPU_EXPORT void tfipu_shut_down(int64_t microseconds) {
  tensorflow_ipu::Interpreter::End();
  tensorflow_ipu::EndCompiler(microseconds);
  tensorflow_ipu::RunningLaunches::ShutDown(microseconds);
  if (auto* instances = tensorflow_ipu::Instances::Get()) instances->watch().ShutDown();
  tensorflow_ipu::FeedManager::ShutDown();
}

TFIPU_EXPORT void tfipu_reset_seed(int ordinal, int64_t seed, int identical_replicas) {
  DeviceState::Get(ordinal)->ResetSeed(static_cast<uint64_t>(seed), identical_replicas != 0);
}

TFIPU_EXPORT void tfipu_enable_events(int enabled) {
  tensorflow_ipu::EventStore::Enable(enabled != 0);
}

// The events since the last call, oldest first: a line "type ordinal timestamp variables
// executable" each.
TFIPU_EXPORT char* tfipu_drain_events() {
  std::string text;
  for (const tensorflow_ipu::Event& event : tensorflow_ipu::EventStore::Drain()) {
    char timestamp[32];
    std::snprintf(timestamp, sizeof(timestamp), "%.6f", event.timestamp);
    tensorflow::strings::StrAppend(&text, static_cast<int>(event.type), " ", event.ordinal, " ",
                                   timestamp, " ", event.variables ? 1 : 0, " ", event.executable,
                                   "\n");
  }
  return CopyText(text);
}

TFIPU_EXPORT void tfipu_statistics(const char* executable, int64_t* launches, double* seconds) {
  const auto statistics = tensorflow_ipu::Statistics::Get(executable);
  *launches = statistics.launches;
  *seconds = statistics.seconds;
}

// Five numbers: uniform ops, ops, bytes of uniform variables, bytes of variables, bytes of copies.
TFIPU_EXPORT void tfipu_uniform_statistics(const char* executable, int64_t* numbers) {
  const auto uniform = tensorflow_ipu::Statistics::Get(executable).uniform;
  numbers[0] = uniform.uniform_ops;
  numbers[1] = uniform.ops;
  numbers[2] = uniform.uniform_bytes;
  numbers[3] = uniform.bytes;
  numbers[4] = uniform.copied_bytes;
}

TFIPU_EXPORT void tfipu_log_launches(const char* executable, const char* line) {
  tensorflow_ipu::Statistics::LogLaunches(executable, line);
}

// Whether the IPU has a kernel for the node of a serialised NodeDef.
TFIPU_EXPORT int tfipu_kernel_available(const char* node_def, int64_t size) {
  tensorflow::NodeDef node;
  if (!node.ParseFromArray(node_def, static_cast<int>(size))) return 0;
  return tensorflow::KernelDefAvailable(tensorflow::DeviceType("IPU"), node) ? 1 : 0;
}

// Sets the command that compiles codelets of Poplar programs.
TFIPU_EXPORT void tfipu_set_popc(const char* command) {
  tensorflow_ipu::PoplarSdk::SetPopc(command);
}

// Builds the Poplar program of a custom operation, a serialised NodeDef, for inputs of these
// shapes: of each its rank, then its dimensions. With the code 0, returns what it takes on the
// chip, or "" for other operations. Else, returns the error.
TFIPU_EXPORT char* tfipu_build_user_op(const char* node_def, int64_t size, const int64_t* shapes,
                                       int* code) {
  tensorflow::NodeDef node;
  tensorflow_ipu::UserOp op;
  std::string text;
  const tensorflow::Status status = [&]() -> tensorflow::Status {
    if (!node.ParseFromArray(node_def, static_cast<int>(size))) {
      return tensorflow::errors::Internal("The node of a custom operation cannot be read.");
    }
    TF_RETURN_IF_ERROR(tensorflow_ipu::LoadUserOp(node, &op));
    if (!op.on_poplar) return tensorflow::OkStatus();
    tensorflow_ipu::UserProgram::Shapes inputs;
    for (size_t i = 0; i < op.input_types.size(); ++i) {
      const int64_t rank = *shapes++;
      inputs.emplace_back(absl::MakeSpan(shapes, rank));
      shapes += rank;
    }
    std::shared_ptr<const tensorflow_ipu::UserProgram> program;
    TF_RETURN_IF_ERROR(tensorflow_ipu::UserProgram::Get(op, inputs, &program));
    text = program->Describe();
    return tensorflow::OkStatus();
  }();
  *code = static_cast<int>(status.code());
  return CopyText(status.ok() ? text : std::string(status.message()));
}

// Returns 1 if programs of a custom operation, a serialised NodeDef, have been built in which
// replicas exchange data.
TFIPU_EXPORT int tfipu_user_op_exchanges(const char* node_def, int64_t size) {
  tensorflow::NodeDef node;
  tensorflow_ipu::UserOp op;
  return node.ParseFromArray(node_def, static_cast<int>(size)) &&
                 tensorflow_ipu::LoadUserOp(node, &op).ok() && op.on_poplar &&
                 tensorflow_ipu::UserProgram::HasExchange(op)
             ? 1
             : 0;
}

// Checks that the library of a custom operation, a serialised NodeDef, has what it needs. With the
// code 0, returns "hash hashable outputs": what stands for the contents of the library, whether
// the operation can be compiled for later, and which outputs (with commas) are equal on all
// replicas. Else, returns the error.
TFIPU_EXPORT char* tfipu_check_user_op(const char* node_def, int64_t size, int* code) {
  tensorflow::NodeDef node;
  tensorflow_ipu::UserOp op;
  const tensorflow::Status status =
      node.ParseFromArray(node_def, static_cast<int>(size))
          ? tensorflow_ipu::LoadUserOp(node, &op)
          : tensorflow::errors::Internal("The node of a custom operation cannot be read.");
  *code = static_cast<int>(status.code());
  if (!status.ok()) return CopyText(std::string(status.message()));
  std::string text = tensorflow::strings::StrCat(op.library == nullptr ? "" : op.library->hash(),
                                                 " ", op.is_hashable ? 1 : 0, " ");
  for (size_t i = 0; i < op.replica_identical.size(); ++i) {
    tensorflow::strings::StrAppend(&text, i > 0 ? "," : "", op.replica_identical[i]);
  }
  return CopyText(text);
}
