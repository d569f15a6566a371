// Refuses ops that the IPU lacks before TensorFlow's placer sees them. The placer would name
// whichever op of a colocation group it meets first, and with soft placement say nothing at all.
#include <string>

#include "kernels/support.h"
#include "plugin/device.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DeviceNameUtils;

bool RequestsIpu(const tensorflow::Node& node) {
  DeviceNameUtils::ParsedName name;
  return !node.requested_device().empty() &&
         DeviceNameUtils::ParseFullName(node.requested_device(), &name) && name.has_type &&
         name.type == kIpuDeviceType;
}

// Variables of types that the IPU lacks need a check of their own: TensorFlow has kernels for them
// that serve every device type.
bool IsUnsupportedVariable(const tensorflow::Node& node) {
  tensorflow::DataType type;
  return node.type_string() == "VarHandleOp" &&
         tensorflow::GetNodeAttr(node.attrs(), "dtype", &type).ok() && IsUnsupportedType(type);
}

class PlacementCheck : public tensorflow::GraphOptimizationPass {
 public:
  tensorflow::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return tensorflow::OkStatus();
    for (const tensorflow::Node* node : (*options.graph)->op_nodes()) {
      const bool unsupported = IsUnsupportedOp(node->type_string()) || IsUnsupportedVariable(*node);
      if (unsupported && RequestsIpu(*node)) return Refuse(*node);
    }
    return tensorflow::OkStatus();
  }

 private:
  static tensorflow::Status Refuse(const tensorflow::Node& node) {
    return tensorflow::errors::InvalidArgument(
        "Cannot assign a device for operation ", tensorflow::FormatNodeDefForError(node.def()),
        ": Could not satisfy explicit device specification '", node.requested_device(),
        "' because no supported kernel for ", kIpuDeviceType,
        " devices is available. Op: ", node.type_string(),
        ". Place it on the CPU, or use an op and types that the IPU has (resource variables in "
        "place of reference variables, float32 in place of float64).");
  }
};

// Keeps loops and conditionals on the IPU in one piece, so that they can be part of a program. By
// default sessions take them apart into the ops of TensorFlow 1.
class KeepControlFlow : public tensorflow::GraphOptimizationPass {
 public:
  tensorflow::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return tensorflow::OkStatus();
    for (tensorflow::Node* node : (*options.graph)->op_nodes()) {
      const bool functional = node->IsIfNode() || node->IsWhileNode() || node->IsCaseNode();
      if (functional && RequestsIpu(*node)) node->ClearAttr("_lower_using_switch_merge");
    }
    return tensorflow::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::PRE_PLACEMENT, 0, KeepControlFlow);
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::PRE_PLACEMENT, 0, PlacementCheck);

}  // namespace
}  // namespace tensorflow_ipu
