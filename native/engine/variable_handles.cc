#include "engine/variable_handles.h"

#include <atomic>
#include <utility>

#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {

using tensorflow::Device;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::Var;

VariableHandles::VariableHandles(int num_replicas) : replicas_(num_replicas) {
  static std::atomic<uint64_t> next{0};
  const uint64_t id = next++;
  for (int r = 0; r < num_replicas; ++r) {
    replicas_[r].container = tensorflow::strings::StrCat("ipu_program_", id, "_", r);
  }
}

Tensor VariableHandles::Register(int replica, size_t index, Var* variable, Device* cpu) {
  Replica& own = replicas_[replica];
  if (index >= own.handles.size()) {
    own.handles.resize(index + 1);
    own.names.resize(index + 1);
  }
  Tensor& handle = own.handles[index];
  std::string& name = own.names[index];
  if (handle.dtype() != tensorflow::DT_RESOURCE) {
    const tensorflow::DtypeAndPartialTensorShape type{variable->tensor()->dtype(),
                                                      variable->tensor()->shape()};
    name = tensorflow::strings::StrCat("variable_", index);
    handle = Tensor(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
    handle.scalar<ResourceHandle>()() = tensorflow::MakeResourceHandle(
        own.container, name, *cpu, tensorflow::TypeIndex::Make<Var>(), {type});
  }
  TF_CHECK_OK(cpu->resource_manager()->Create(own.container, name, variable));
  return handle;
}

void VariableHandles::Clear(int replica, Device* cpu) {
  cpu->resource_manager()->Cleanup(replicas_[replica].container).IgnoreError();
}

}  // namespace tensorflow_ipu
