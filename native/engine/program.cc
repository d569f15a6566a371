#include "engine/program.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {
namespace {

std::atomic<CompileCallback> compiler{nullptr};

tensorflow::mutex mu(tensorflow::LINKER_INITIALIZED);
tensorflow::condition_variable left;
int in_python TF_GUARDED_BY(mu) = 0;
bool ended TF_GUARDED_BY(mu) = false;

bool Enter() {
  tensorflow::mutex_lock lock(mu);
  if (ended) return false;
  ++in_python;
  return true;
}

void Leave() {
  tensorflow::mutex_lock lock(mu);
  --in_python;
  left.notify_all();
}

}  // namespace

bool HasCompiler() { return compiler.load() != nullptr; }

void EndCompiler(int64_t microseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  tensorflow::mutex_lock lock(mu);
  ended = true;
  while (in_python > 0) {
    const auto remaining = deadline - std::chrono::steady_clock::now();
    if (remaining <= remaining.zero()) return;
    left.wait_for(lock, remaining);
  }
}

void SetCompiler(CompileCallback callback) { compiler = callback; }

tensorflow::Status Compile(const std::string& cluster, int ordinal, std::vector<Argument> arguments,
                           std::shared_ptr<Program>* program) {
  const CompileCallback callback = compiler;
  if (callback == nullptr) {
    return tensorflow::errors::FailedPrecondition(
        "An IPU program was started before the IPU runtime was imported. Import it first: "
        "from tensorflow.python import ipu");
  }
  if (!Enter()) return tensorflow::errors::Cancelled("The process is ending.");
  CompileRequest request;
  request.cluster = cluster;
  request.ordinal = ordinal;
  request.arguments = std::move(arguments);
  callback(&request);
  Leave();
  *program = std::move(request.program);
  return request.status;
}

}  // namespace tensorflow_ipu
