// Programs: what a device does, step by step.
#ifndef poplar_Program_hpp
#define poplar_Program_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/PrintTensorFmt.hpp>
#include <poplar/RemoteBuffer.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace poplar {

namespace core {
struct ProgramNode;
struct Access;
}  // namespace core

namespace program {

/// A program. Copies are values that share what is not changed.
class Program {
 public:
  Program() {}
  bool isEmpty() const;

 protected:
  friend struct core::Access;
  std::shared_ptr<core::ProgramNode> node_;
};

/// Programs one after the other.
class Sequence : public Program {
 public:
  Sequence(const DebugContext &debugContext = {});
  Sequence(std::initializer_list<Program> programs, const DebugContext &debugContext = {});
  /// A sequence of one program.
  template <typename P,
            typename = typename std::enable_if<std::is_base_of<Program, P>::value &&
                                               !std::is_base_of<Sequence, P>::value>::type>
  explicit Sequence(const P &program) : Sequence({program}) {}
  template <typename... Rest>
  Sequence(const Program &first, const Program &second, const Rest &...rest)
      : Sequence({first, second, rest...}) {}

  void add(const Program &program);
  void add(const Program &program, const DebugContext &) { add(program); }

 private:
  friend struct core::Access;
};

/// All vertices of a compute set at once.
class Execute : public Program {
 public:
  Execute(ComputeSet computeSet, const DebugContext &debugContext = {});
  /// Sets a tensor of one BOOL to whether every vertex returned true.
  Execute(ComputeSet computeSet, Tensor exitCode, const DebugContext &debugContext = {});
};

/// Elements from one place to another.
class Copy : public Program {
 public:
  Copy(Tensor from, Tensor to, bool dontOutline = false, const DebugContext &debugContext = {});
  Copy(Tensor from, Tensor to, const DebugContext &debugContext)
      : Copy(from, to, false, debugContext) {}
  Copy(const DataStream &from, Tensor to, bool optimiseMemory = false,
       const DebugContext &debugContext = {});
  Copy(const DataStream &from, Tensor to, const DebugContext &debugContext)
      : Copy(from, to, false, debugContext) {}
  Copy(Tensor from, const DataStream &to, bool optimiseMemory = false,
       const DebugContext &debugContext = {});
  Copy(Tensor from, const DataStream &to, const DebugContext &debugContext)
      : Copy(from, to, false, debugContext) {}
  Copy(const RemoteBuffer &from, Tensor to, const DebugContext &debugContext = {});
  Copy(const RemoteBuffer &from, Tensor to, Tensor rows, const DebugContext &debugContext = {});
  Copy(Tensor from, const RemoteBuffer &to, const DebugContext &debugContext = {});
  Copy(Tensor from, const RemoteBuffer &to, Tensor rows, const DebugContext &debugContext = {});
  /// Loads a function that is in remote memory: all functions are at hand here.
  Copy(const FunctionBuffer &from, const Function &to, const DebugContext &debugContext = {});
};

/// Elements from replica to replica: `from` of a replica goes to `to` of the one that the map says.
class CrossReplicaCopy : public Program {
 public:
  CrossReplicaCopy(Tensor from, Tensor to, std::map<unsigned, unsigned> replicas,
                   const DebugContext &debugContext = {});
};

/// A program `count` times.
class Repeat : public Program {
 public:
  Repeat(unsigned count, const Program &body, const DebugContext &debugContext = {});
};

/// Runs for ever, until a step throws.
class Loop : public Program {
 public:
  explicit Loop(const Program &body, const DebugContext &debugContext = {});
};

/// Runs `condition`, and while `predicate` is not zero then, `body` and `condition` again.
class RepeatWhileTrue : public Program {
 public:
  RepeatWhileTrue(const Program &condition, Tensor predicate, const Program &body,
                  const DebugContext &debugContext = {});
};

/// The same while `predicate` is zero.
class RepeatWhileFalse : public Program {
 public:
  RepeatWhileFalse(const Program &condition, Tensor predicate, const Program &body,
                   const DebugContext &debugContext = {});
};

/// One of two programs.
class If : public Program {
 public:
  If(Tensor predicate, const Program &trueBody, const Program &falseBody,
     const DebugContext &debugContext = {});
};

/// One of several programs, by the value of an INT.
class Switch : public Program {
 public:
  Switch(Tensor control, const std::vector<std::pair<std::int32_t, Program>> &cases,
         const DebugContext &debugContext = {});
  Switch(Tensor control, const std::vector<std::pair<std::int32_t, Program>> &cases,
         const Program &defaultCase, const DebugContext &debugContext = {});
  Switch(Tensor control, const DebugContext &debugContext = {});
  Switch(Tensor control, const Program &defaultCase, const DebugContext &debugContext = {});

  Switch &add(std::int32_t value, const Program &body);

  /// A value without a case is an error.
  static Switch switchWithBoundsChecking(Tensor control,
                                         const std::vector<std::pair<std::int32_t, Program>> &cases,
                                         const DebugContext &debugContext = {});
  static Switch switchWithUnreachableDefault(Tensor control, const DebugContext &debugContext = {});
};

/// A function of the graph, or of the host.
class Call : public Program {
 public:
  Call(Function function, const DebugContext &debugContext = {});
  Call(HostFunction function, ArrayRef<Tensor> inputs, ArrayRef<Tensor> outputs,
       const DebugContext &debugContext = {});
};

/// Prints a tensor.
class PrintTensor : public Program {
 public:
  PrintTensor(Tensor tensor, const DebugContext &debugContext = {});
  PrintTensor(Tensor tensor, const PrintTensorFmt &format, const DebugContext &debugContext = {});
  PrintTensor(StringRef title, Tensor tensor, const DebugContext &debugContext = {});
  PrintTensor(StringRef title, Tensor tensor, const PrintTensorFmt &format,
              const DebugContext &debugContext = {});
};

class Sync : public Program {
 public:
  explicit Sync(SyncType type, const DebugContext &debugContext = {});
};

/// Says that the elements of a tensor are not needed any more.
class WriteUndef : public Program {
 public:
  explicit WriteUndef(Tensor tensor, const DebugContext &debugContext = {});
};

class AssumeEqualAcrossReplicas : public Program {
 public:
  explicit AssumeEqualAcrossReplicas(Tensor tensor, const DebugContext &debugContext = {});
};

/// A program with a name for reports.
class Block : public Program {
 public:
  explicit Block(const Program &body, const DebugContext &debugContext = {});
};

/// Ends the run with application_runtime_error.
class Abort : public Program {
 public:
  Abort(const DebugContext &debugContext = {});
  explicit Abort(const std::string &message, const DebugContext &debugContext = {});
};

/// The same where a tensor is not zero.
class AbortOnCondition : public Program {
 public:
  explicit AbortOnCondition(Tensor predicate, const DebugContext &debugContext = {});
  AbortOnCondition(Tensor predicate, const std::string &message,
                   const DebugContext &debugContext = {});
};

/// Ends the run with application_runtime_error, and shows a tensor.
class ErrorProgram : public Program {
 public:
  ErrorProgram(StringRef message, Tensor debugData, const DebugContext &debugContext = {});
};

}  // namespace program
}  // namespace poplar

#endif  // poplar_Program_hpp
