#include "engine/program.h"

#include <atomic>
#include <utility>

namespace tensorflow_ipu {
namespace {

std::atomic<CompileCallback> compiler{nullptr};

}  // namespace

void SetCompiler(CompileCallback callback) { compiler = callback; }

tensorflow::Status Compile(const std::string& cluster, int ordinal, std::vector<Argument> arguments,
                           std::shared_ptr<Program>* program) {
  const CompileCallback callback = compiler;
  if (callback == nullptr) {
    return tensorflow::errors::FailedPrecondition(
        "An IPU program was started before the IPU runtime was imported. Import it first: "
        "from tensorflow.python import ipu");
  }
  CompileRequest request;
  request.cluster = cluster;
  request.ordinal = ordinal;
  request.arguments = std::move(arguments);
  callback(&request);
  *program = std::move(request.program);
  return request.status;
}

}  // namespace tensorflow_ipu
