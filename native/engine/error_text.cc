#include "engine/error_text.h"

#include <atomic>

#include "absl/strings/match.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

// How TensorFlow names functions and nodes in messages: {{node dense/MatMul}}.
constexpr char kTag[] = "{{";

std::atomic<ErrorCallback> writer{nullptr};

}  // namespace

void SetErrorWriter(ErrorCallback callback) { writer = callback; }

tensorflow::Status Explained(const std::string& cluster, const tensorflow::Status& status) {
  const ErrorCallback callback = writer;
  if (status.ok() || callback == nullptr || !absl::StrContains(status.message(), kTag)) {
    return status;
  }
  ErrorRequest request{cluster, std::string(status.message())};
  callback(&request);
  return tensorflow::errors::CreateWithUpdatedMessage(status, request.message);
}

}  // namespace tensorflow_ipu
