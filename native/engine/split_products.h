// Matrix products of programs of one thread: a second thread computes half of large ones.
#ifndef TENSORFLOW_IPU_ENGINE_SPLIT_PRODUCTS_H_
#define TENSORFLOW_IPU_ENGINE_SPLIT_PRODUCTS_H_

#include <memory>

#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow_ipu {

// Creates the kernel of a node for an executor. That of a matrix product computes it in halves, on
// two threads, if it is large, the result has the same bits, and this takes less time.
tensorflow::Status CreateSplitKernel(const tensorflow::LocalExecutorParams& params,
                                     int graph_def_version,
                                     const std::shared_ptr<const tensorflow::NodeProperties>& node,
                                     tensorflow::OpKernel** kernel);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_SPLIT_PRODUCTS_H_
