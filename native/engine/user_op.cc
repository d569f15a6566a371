#include "engine/user_op.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/poplar_metadata.h"
#include "include/tensorflow_ipu/custom_op.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

const char kCpuUserOp[] = "IpuCpuUserOperation";
const char kPrecompiledUserOp[] = "IpuPrecompiledUserOp";
const char kCodeletsHash[] = "_ipu_codelets_hash";
const char kUserOpName[] = "_ipu_user_op_name";

namespace {

using tensorflow::GetNodeAttr;
using tensorflow::Status;
using tensorflow::TryGetNodeAttr;

constexpr char kApiLevel[] = "custom_op_api_level";

Status CheckApiLevel(const UserLibrary& library, int* level) {
  void* address = nullptr;
  TF_RETURN_IF_ERROR(library.Get(kApiLevel, &address));
  *level = *static_cast<const int32_t*>(address);
  if (library.uses_poplar()) {
    if (*level >= kFirstPoplarLevel && *level <= kLastPoplarLevel) return tensorflow::OkStatus();
    return tensorflow::errors::Internal("Api level of module ", library.path(), ": expected ",
                                        kLastPoplarLevel, " (or ", kFirstPoplarLevel,
                                        " and more), received ", *level, ". Set ", kApiLevel,
                                        " to the level of the functions in the library.");
  }
  if (*level == TENSORFLOW_IPU_API_LEVEL) return tensorflow::OkStatus();
  return tensorflow::errors::Internal(
      "Api level of module ", library.path(), ": expected ", TENSORFLOW_IPU_API_LEVEL,
      ", received ", *level, ". Compile it with the header tensorflow_ipu/custom_op.h of this ",
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

Status CheckIndex(const std::string& symbol, const char* what, int64_t index, int count) {
  if (index >= 0 && index < count) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(symbol, " names ", what, " ", index,
                                             ", but the operation has ", count, ".");
}

// The same of a library that is built against Poplar.
Status DescribePoplar(const std::string& name, int num_inputs, int num_outputs, UserOp* op) {
  op->aliased_output.assign(num_inputs, -1);
  op->allocates.assign(num_inputs, 0);
  const std::string symbol = name + "_metadata";
  void* address = op->library->Find(symbol);
  if (address == nullptr) return tensorflow::OkStatus();
  const PoplarMetadata metadata = CallPoplarMetadata(address, op->api_level, num_inputs);
  for (const auto& [input, output] : metadata.aliases) {
    TF_RETURN_IF_ERROR(CheckIndex(symbol, "input", input, num_inputs));
    op->aliased_output[input] = static_cast<int32_t>(output);
  }
  TF_RETURN_IF_ERROR(CheckAliases(symbol, op->aliased_output, num_outputs));
  for (const int64_t input : metadata.allocating) {
    TF_RETURN_IF_ERROR(CheckIndex(symbol, "input", input, num_inputs));
    op->allocates[input] = 1;
  }
  if (!metadata.allocating.empty()) {
    TF_RETURN_IF_ERROR(op->library->Get(name + "_allocator", &op->allocator));
  }
  for (const int64_t output : metadata.replica_identical) {
    TF_RETURN_IF_ERROR(CheckIndex(symbol, "output", output, num_outputs));
    op->replica_identical.push_back(static_cast<int>(output));
  }
  op->is_elementwise = metadata.is_elementwise;
  op->is_hashable = metadata.is_hashable;
  return tensorflow::OkStatus();
}

// Reads "chip tiles replicas".
Status ReadTarget(const std::string& text, UserOpTarget* target) {
  if (text.empty()) return tensorflow::OkStatus();
  std::istringstream stream(text);
  if (stream >> target->chip >> target->tiles >> target->replicas) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument("The target of a custom operation, '", text,
                                             "', is not of the form 'chip tiles replicas'.");
}

}  // namespace

std::string UserOp::Title() const {
  return absl::StrCat("The custom operation ", name, " (", kind.empty() ? symbol : kind, ")",
                      library == nullptr ? "" : absl::StrCat(" of ", library->path()));
}

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
  op->name = node.name();
  // The name in the user's program, which TensorFlow may have changed since.
  TryGetNodeAttr(node, kUserOpName, &op->name);
  if (!op->on_host) {
    std::string target;
    TF_RETURN_IF_ERROR(GetNodeAttr(node, "kind", &op->kind));
    TF_RETURN_IF_ERROR(GetNodeAttr(node, "codelets", &op->codelets));
    // What the compiler has seen, else what is there.
    if (!op->codelets.empty() && !TryGetNodeAttr(node, kCodeletsHash, &op->codelets_hash)) {
      op->codelets_hash = UserLibrary::HashOf(op->codelets);
    }
    TF_RETURN_IF_ERROR(GetNodeAttr(node, "target", &target));
    TF_RETURN_IF_ERROR(ReadTarget(target, &op->target));
  }
  if (op->is_gradient()) name += "_grad";
  op->symbol = name;
  TF_RETURN_IF_ERROR(GetNodeAttr(node, "output_shapes", &op->output_shapes));
  op->input_types = inputs;
  op->output_types = outputs;
  const int num_inputs = static_cast<int>(inputs.size());
  const int num_outputs = static_cast<int>(outputs.size());
  if (!op->kind.empty()) {
    op->on_poplar = true;
    op->aliased_output.assign(num_inputs, -1);
    op->allocates.assign(num_inputs, 0);
    return tensorflow::OkStatus();
  }
  TF_RETURN_IF_ERROR(UserLibrary::Open(path, hash, &op->library));
  op->on_poplar = !op->on_host && op->library->uses_poplar();
  if (!op->on_host) TF_RETURN_IF_ERROR(CheckApiLevel(*op->library, &op->api_level));
  TF_RETURN_IF_ERROR(op->library->Get(name, &op->function));
  if (op->on_host) return tensorflow::OkStatus();
  return op->on_poplar ? DescribePoplar(name, num_inputs, num_outputs, op)
                       : Describe(name, num_inputs, num_outputs, op);
}

}  // namespace tensorflow_ipu
