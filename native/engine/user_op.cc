#include "engine/user_op.h"

#include <algorithm>

#include "include/tensorflow_ipu/custom_op.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

const char kCpuUserOp[] = "IpuCpuUserOperation";
const char kPrecompiledUserOp[] = "IpuPrecompiledUserOp";

namespace {

using tensorflow::GetNodeAttr;
using tensorflow::Status;

constexpr char kApiLevel[] = "custom_op_api_level";

Status CheckApiLevel(const UserLibrary& library) {
  void* address = nullptr;
  TF_RETURN_IF_ERROR(library.Get(kApiLevel, &address));
  const int32_t level = *static_cast<const int32_t*>(address);
  if (level == TENSORFLOW_IPU_API_LEVEL) return tensorflow::OkStatus();
  return tensorflow::errors::Internal(
      "Api level of module ", library.path(), ": expected ", TENSORFLOW_IPU_API_LEVEL,
      ", received ", level, ". Compile it with the header tensorflow_ipu/custom_op.h of this ",
      "release, and set ", kApiLevel, " to TENSORFLOW_IPU_API_LEVEL.");
}

Status CheckAliases(const std::string& symbol, const std::vector<int32_t>& aliased_output,
                    int num_outputs) {
  std::vector<int> inputs(num_outputs, -1);
  for (size_t i = 0; i < aliased_output.size(); ++i) {
    const int32_t output = aliased_output[i];
    if (output == -1) continue;
    if (output < 0 || output >= num_outputs) {
      return tensorflow::errors::InvalidArgument(
          symbol, " says that input ", i, " shares its memory with output ", output,
          ", but the operation has ", num_outputs, " outputs.");
    }
    if (inputs[output] >= 0) {
      return tensorflow::errors::InvalidArgument(
          symbol, " says that the inputs ", inputs[output], " and ", i,
          " both share their memory with output ", output, ". Only one can.");
    }
    inputs[output] = static_cast<int>(i);
  }
  return tensorflow::OkStatus();
}

// Asks the library what it says of the operation, if it says anything.
Status Describe(const std::string& name, int num_inputs, int num_outputs, UserOp* op) {
  op->aliased_output.assign(num_inputs, -1);
  const std::string symbol = name + "_metadata";
  void* address = op->library->Find(symbol);
  if (address == nullptr) return tensorflow::OkStatus();
  std::vector<uint8_t> allocates(num_inputs), identical(num_outputs);
  tensorflow_ipu_metadata metadata = {};
  metadata.num_inputs = num_inputs;
  metadata.num_outputs = num_outputs;
  metadata.allocates = allocates.data();
  metadata.aliased_output = op->aliased_output.data();
  metadata.replica_identical = identical.data();
  reinterpret_cast<tensorflow_ipu_describe*>(address)(&metadata);
  TF_RETURN_IF_ERROR(CheckAliases(symbol, op->aliased_output, num_outputs));
  if (std::count(allocates.begin(), allocates.end(), 0) < num_inputs) {
    TF_RETURN_IF_ERROR(op->library->Get(name + "_allocator", &address));
  }
  for (int i = 0; i < num_outputs; ++i) {
    if (identical[i] != 0) op->replica_identical.push_back(i);
  }
  op->is_elementwise = metadata.is_elementwise != 0;
  op->is_hashable = metadata.is_hashable != 0;
  return tensorflow::OkStatus();
}

}  // namespace

Status LoadUserOp(const tensorflow::NodeDef& node, UserOp* op) {
  std::string path, hash, name;
  std::vector<tensorflow::DataType> inputs, outputs;
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "library_path", &path));
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "library_hash", &hash));
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "op_name", &name));
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "attributes", &op->attributes));
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "num_gradients", &op->num_gradients));
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "gradient_inputs", &op->gradient_inputs));
  bool separate = false;
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "separate_gradients", &separate));
  op->separate_gradients = separate && op->is_gradient();
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "Tinputs", &inputs));
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "output_types", &outputs));
  op->on_host = node.op() == kCpuUserOp;
  if (op->is_gradient()) name += "_grad";
  TF_RETURN_IF_ERROR(UserLibrary::Open(path, hash, &op->library));
  if (!op->on_host) TF_RETURN_IF_ERROR(CheckApiLevel(*op->library));
  TF_RETURN_IF_ERROR(op->library->Get(name, &op->function));
  if (op->on_host) return tensorflow::OkStatus();
  return Describe(name, static_cast<int>(inputs.size()), static_cast<int>(outputs.size()), op);
}

}  // namespace tensorflow_ipu
