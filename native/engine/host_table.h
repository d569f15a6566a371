// A table of embeddings that stays on the host while programs read and train it.
#ifndef TENSORFLOW_IPU_ENGINE_HOST_TABLE_H_
#define TENSORFLOW_IPU_ENGINE_HOST_TABLE_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// What one backward pass of one replica does to a table: row `indices[i]` loses
// `rate * gradients[i]`.
struct TableUpdate {
  tensorflow::Tensor gradients;  // [n, width], of the table's type
  tensorflow::Tensor indices;    // [n], int32
  float rate;
};

// A table from its registration until the end of that. It is among the resources of the CPU device,
// so each session (and the eager context) has its own. Thread-safe.
class HostTable : public tensorflow::ResourceBase {
 public:
  // Copies `values`, [rows, width], half or float.
  explicit HostTable(const tensorflow::Tensor& values);

  // Makes `values` the table called `name` of the session that `ctx` is in.
  static tensorflow::Status Register(tensorflow::OpKernelContext* ctx, const std::string& name,
                                     const tensorflow::Tensor& values);
  static tensorflow::Status Find(tensorflow::OpKernelContext* ctx, const std::string& name,
                                 tensorflow::core::RefCountPtr<HostTable>* table);
  // Ends the registration and returns the values.
  static tensorflow::Status Deregister(tensorflow::OpKernelContext* ctx, const std::string& name,
                                       tensorflow::Tensor* values);

  // Sets the output of `ctx` to the rows that `indices` names; zeros for a row that is not there.
  tensorflow::Status Lookup(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& indices);

  // Applies updates. What they do to one row is added in their order, in float32, and rounded once;
  // so results do not depend on threads. Rows that are not there are left out.
  tensorflow::Status Update(tensorflow::OpKernelContext* ctx,
                            const std::vector<TableUpdate>& updates);

  std::string DebugString() const override { return "host embedding"; }

 private:
  template <typename T>
  void Apply(tensorflow::OpKernelContext* ctx, const std::vector<TableUpdate>& updates)
      TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  tensorflow::mutex mu_;
  tensorflow::Tensor values_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_HOST_TABLE_H_
