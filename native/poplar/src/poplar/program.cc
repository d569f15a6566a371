#include "poplar/Program.hpp"

#include <string>
#include <utility>

#include "access.h"
#include "graph_data.h"
#include "poplar/exceptions.hpp"

namespace poplar {

using core::Access;
using core::ProgramKind;
using core::ProgramNode;

namespace {

std::shared_ptr<ProgramNode> Node(ProgramKind kind, const DebugContext& context) {
  auto node = std::make_shared<ProgramNode>();
  node->kind = kind;
  node->name = context.getPathName();
  node->location = context.location();
  return node;
}

[[noreturn]] void Fail(const ProgramNode& node, const std::string& message) {
  throw control_program_error(core::Prefix(node.location) + message);
}

void CheckPredicate(const ProgramNode& node, const Tensor& predicate) {
  const Type type = predicate.elementType();
  if (predicate.numElements() != 1 || (type != BOOL && type != INT && type != UNSIGNED_INT)) {
    Fail(node, "A condition has one element of BOOL, INT or UNSIGNED_INT, not " +
                   predicate.shapeToString() + " of " + type.toString().cloneAsString() + ".");
  }
}

void CheckStream(const ProgramNode& node, Type type, size_t count, const Tensor& tensor,
                 const std::string& handle) {
  if (tensor.elementType() == type && tensor.numElements() == count) return;
  Fail(node, "Copy: '" + handle + "' has " + std::to_string(count) + " elements of " +
                 type.toString().cloneAsString() + ", the tensor " +
                 std::to_string(tensor.numElements()) + " of " +
                 tensor.elementType().toString().cloneAsString() + ".");
}

}  // namespace

namespace program {

bool Program::isEmpty() const {
  return node_ == nullptr || (node_->kind == ProgramKind::kSequence && node_->children.empty());
}

Sequence::Sequence(const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kSequence, debugContext);
}

Sequence::Sequence(std::initializer_list<Program> programs, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kSequence, debugContext);
  for (const Program& program : programs) add(program);
}

void Sequence::add(const Program& program) {
  if (Access::Node(program) == nullptr) return;
  // Another program has this one as it is now.
  if (node_.use_count() > 1) node_ = std::make_shared<ProgramNode>(*node_);
  node_->children.push_back(program);
}

Execute::Execute(ComputeSet computeSet, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kExecute, debugContext);
  node_->number = computeSet.getId();
}

Execute::Execute(ComputeSet computeSet, Tensor exitCode, const DebugContext& debugContext)
    : Execute(computeSet, debugContext) {
  if (exitCode.elementType() != BOOL || exitCode.numElements() != 1) {
    Fail(*node_, "Execute: the exit code has one element of BOOL.");
  }
  node_->outputs = {exitCode};
}

Copy::Copy(Tensor from, Tensor to, bool, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kCopy, debugContext);
  if (from.elementType() != to.elementType() || from.numElements() != to.numElements()) {
    Fail(*node_, "Copy: source " + from.shapeToString() + " of " +
                     from.elementType().toString().cloneAsString() + " and destination " +
                     to.shapeToString() + " of " + to.elementType().toString().cloneAsString() +
                     " differ in type or number of elements.");
  }
  if (to.containsConstant()) Fail(*node_, "Copy: the destination is a constant.");
  if (to.containsAliases()) {
    Fail(*node_, "Copy: the destination has an element more than once.");
  }
  node_->inputs = {from};
  node_->outputs = {to};
}

Copy::Copy(const DataStream& from, Tensor to, bool, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kStreamToDevice, debugContext);
  CheckStream(*node_, from.elementType(), from.numElements(), to, from.handle());
  if (from.type() != DataStreamType::HostToDeviceFIFO) {
    Fail(*node_, "Copy: the stream '" + from.handle() + "' goes from the device to the host.");
  }
  if (to.containsConstant()) Fail(*node_, "Copy: the destination is a constant.");
  node_->outputs = {to};
  node_->number = Access::Data(from)->id;
}

Copy::Copy(Tensor from, const DataStream& to, bool, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kStreamToHost, debugContext);
  CheckStream(*node_, to.elementType(), to.numElements(), from, to.handle());
  if (to.type() != DataStreamType::DeviceToHostFIFO) {
    Fail(*node_, "Copy: the stream '" + to.handle() + "' goes from the host to the device.");
  }
  node_->inputs = {from};
  node_->number = Access::Data(to)->id;
}

namespace {

void CheckRows(const ProgramNode& node, const RemoteBuffer& buffer, const Tensor& tensor,
               size_t rows) {
  CheckStream(node, buffer.elementType(), buffer.numElements() * rows, tensor, buffer.handle());
}

void CheckOffsets(const ProgramNode& node, const Tensor& rows) {
  if (rows.elementType() == INT || rows.elementType() == UNSIGNED_INT) return;
  Fail(node, "Copy: rows of a remote buffer are of INT or UNSIGNED_INT.");
}

}  // namespace

Copy::Copy(const RemoteBuffer& from, Tensor to, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kRemoteRead, debugContext);
  CheckRows(*node_, from, to, 1);
  node_->outputs = {to};
  node_->number = Access::Data(from)->id;
}

Copy::Copy(const RemoteBuffer& from, Tensor to, Tensor rows, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kRemoteRead, debugContext);
  CheckRows(*node_, from, to, rows.numElements());
  CheckOffsets(*node_, rows);
  node_->inputs = {rows};
  node_->outputs = {to};
  node_->number = Access::Data(from)->id;
}

Copy::Copy(Tensor from, const RemoteBuffer& to, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kRemoteWrite, debugContext);
  CheckRows(*node_, to, from, 1);
  node_->inputs = {from};
  node_->number = Access::Data(to)->id;
}

Copy::Copy(Tensor from, const RemoteBuffer& to, Tensor rows, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kRemoteWrite, debugContext);
  CheckRows(*node_, to, from, rows.numElements());
  CheckOffsets(*node_, rows);
  node_->inputs = {from, rows};
  node_->number = Access::Data(to)->id;
}

Copy::Copy(const FunctionBuffer&, const Function&, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kNothing, debugContext);
}

CrossReplicaCopy::CrossReplicaCopy(Tensor from, Tensor to, std::map<unsigned, unsigned> replicas,
                                   const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kCrossReplicaCopy, debugContext);
  node_->inputs = {from};
  node_->outputs = {to};
  node_->replicas = std::move(replicas);
}

Repeat::Repeat(unsigned count, const Program& body, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kRepeat, debugContext);
  node_->number = count;
  node_->children = {body};
}

Loop::Loop(const Program& body, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kLoop, debugContext);
  node_->children = {body};
}

RepeatWhileTrue::RepeatWhileTrue(const Program& condition, Tensor predicate, const Program& body,
                                 const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kWhile, debugContext);
  CheckPredicate(*node_, predicate);
  node_->flag = true;
  node_->inputs = {predicate};
  node_->children = {condition, body};
}

RepeatWhileFalse::RepeatWhileFalse(const Program& condition, Tensor predicate, const Program& body,
                                   const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kWhile, debugContext);
  CheckPredicate(*node_, predicate);
  node_->inputs = {predicate};
  node_->children = {condition, body};
}

If::If(Tensor predicate, const Program& trueBody, const Program& falseBody,
       const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kIf, debugContext);
  CheckPredicate(*node_, predicate);
  node_->inputs = {predicate};
  node_->children = {trueBody, falseBody};
}

Switch::Switch(Tensor control, const std::vector<std::pair<int32_t, Program>>& cases,
               const DebugContext& debugContext)
    : Switch(control, cases, Sequence(), debugContext) {}

Switch::Switch(Tensor control, const std::vector<std::pair<int32_t, Program>>& cases,
               const Program& defaultCase, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kSwitch, debugContext);
  if (control.numElements() != 1 ||
      (control.elementType() != INT && control.elementType() != UNSIGNED_INT)) {
    Fail(*node_, "Switch: the control has one element of INT.");
  }
  node_->inputs = {control};
  node_->children = {defaultCase};
  for (const auto& [value, body] : cases) add(value, body);
}

Switch::Switch(Tensor control, const DebugContext& debugContext)
    : Switch(control, std::vector<std::pair<int32_t, Program>>(), debugContext) {}

Switch::Switch(Tensor control, const Program& defaultCase, const DebugContext& debugContext)
    : Switch(control, {}, defaultCase, debugContext) {}

Switch& Switch::add(int32_t value, const Program& body) {
  if (node_.use_count() > 1) node_ = std::make_shared<ProgramNode>(*node_);
  for (const int32_t other : node_->values) {
    if (other == value) Fail(*node_, "Switch: case " + std::to_string(value) + " exists already.");
  }
  node_->values.push_back(value);
  node_->children.push_back(body);
  return *this;
}

Switch Switch::switchWithBoundsChecking(Tensor control,
                                        const std::vector<std::pair<int32_t, Program>>& cases,
                                        const DebugContext& debugContext) {
  Switch result(control, cases, debugContext);
  result.node_->flag = true;
  return result;
}

Switch Switch::switchWithUnreachableDefault(Tensor control, const DebugContext& debugContext) {
  Switch result(control, debugContext);
  result.node_->flag = true;
  return result;
}

Call::Call(Function function, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kCall, debugContext);
  node_->number = function.getId();
}

Call::Call(HostFunction function, ArrayRef<Tensor> inputs, ArrayRef<Tensor> outputs,
           const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kHostCall, debugContext);
  node_->number = function.getId();
  node_->inputs = inputs.cloneAsVector();
  node_->outputs = outputs.cloneAsVector();
}

PrintTensor::PrintTensor(Tensor tensor, const DebugContext& debugContext)
    : PrintTensor(tensor, PrintTensorFmt(), debugContext) {}

PrintTensor::PrintTensor(Tensor tensor, const PrintTensorFmt& format,
                         const DebugContext& debugContext)
    : PrintTensor(debugContext.getPathName(), tensor, format, debugContext) {
  if (node_->text.empty()) node_->text = "/print-tensor";
}

PrintTensor::PrintTensor(StringRef title, Tensor tensor, const DebugContext& debugContext)
    : PrintTensor(title, tensor, PrintTensorFmt(), debugContext) {}

PrintTensor::PrintTensor(StringRef title, Tensor tensor, const PrintTensorFmt& format,
                         const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kPrint, debugContext);
  node_->inputs = {tensor};
  node_->text = title.cloneAsString();
  node_->format = format;
}

Sync::Sync(SyncType, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kNothing, debugContext);
}

WriteUndef::WriteUndef(Tensor, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kNothing, debugContext);
}

AssumeEqualAcrossReplicas::AssumeEqualAcrossReplicas(Tensor, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kNothing, debugContext);
}

Block::Block(const Program& body, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kSequence, debugContext);
  node_->children = {body};
}

Abort::Abort(const DebugContext& debugContext) : Abort("", debugContext) {}

Abort::Abort(const std::string& message, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kAbort, debugContext);
  node_->text = message;
}

AbortOnCondition::AbortOnCondition(Tensor predicate, const DebugContext& debugContext)
    : AbortOnCondition(predicate, "", debugContext) {}

AbortOnCondition::AbortOnCondition(Tensor predicate, const std::string& message,
                                   const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kAbort, debugContext);
  CheckPredicate(*node_, predicate);
  node_->text = message;
  node_->inputs = {predicate};
}

ErrorProgram::ErrorProgram(StringRef message, Tensor debugData, const DebugContext& debugContext) {
  node_ = Node(ProgramKind::kAbort, debugContext);
  node_->text = message.cloneAsString();
  node_->outputs = {debugData};
}

}  // namespace program

std::string core::Prefix(const SourceLocation& location) {
  if (!location.isValid()) return "";
  return std::string(location.getFileName()) + ":" + std::to_string(location.getLineNumber()) + " ";
}

}  // namespace poplar
