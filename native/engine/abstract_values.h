// Tensors with a type and a shape, and no values: those of a process that only plans programs.
#ifndef TENSORFLOW_IPU_ENGINE_ABSTRACT_VALUES_H_
#define TENSORFLOW_IPU_ENGINE_ABSTRACT_VALUES_H_

#include <string>

#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

// Called with the name of an op or tensor whose value the program needs. Ends the process.
using ValueNeededCallback = void (*)(const char* name);

// The abstract tensors of this process. Their buffers are in a range of addresses that is reserved
// and never touched, so they take no memory, and a tensor is abstract if its buffer is there.
class AbstractValues {
 public:
  // Whether this process only plans, as the environment variable TENSORFLOW_IPU_PLAN says.
  static bool Enabled();

  // Whether a tensor is abstract.
  static bool Has(const tensorflow::Tensor& tensor);
  static bool HasAddress(const void* address);

  // Makes an abstract tensor. Only for types whose elements have a fixed size.
  static tensorflow::Tensor Make(tensorflow::DataType type, const tensorflow::TensorShape& shape);

  static void SetValueNeeded(ValueNeededCallback callback);

  // Ends the process because the program needs a value. Returns an error if nobody ends it.
  static tensorflow::Status Need(const std::string& name);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_ABSTRACT_VALUES_H_
