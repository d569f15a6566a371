// The texts of errors, in the words of the user's program.
#ifndef TENSORFLOW_IPU_ENGINE_ERROR_TEXT_H_
#define TENSORFLOW_IPU_ENGINE_ERROR_TEXT_H_

#include <string>

#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// One call of the writer of error texts in Python: the question, and room for the answer.
struct ErrorRequest {
  std::string cluster;
  std::string message;
};

// Takes an ErrorRequest*; may replace its message.
using ErrorCallback = void (*)(void* request);

// Sets the writer; null for none.
void SetErrorWriter(ErrorCallback callback);

// An error that a launch of `cluster` ended with, with the user's lines in place of the nodes that
// TensorFlow names. Asks Python, which no launch without an error does.
tensorflow::Status Explained(const std::string& cluster, const tensorflow::Status& status);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_ERROR_TEXT_H_
