// Functions of a graph that are called with tensors.
#ifndef poputil_GraphFunction_hpp
#define poputil_GraphFunction_hpp

#include <poplar/Graph.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <functional>
#include <string>
#include <vector>

namespace poputil {
namespace graphfn {

enum class ArgType { InputArg, OutputArg, InOutArg, CreatedArg };

/// An argument: what it is for, and a tensor of its shape and mapping.
struct ArgSig {
  ArgSig(ArgType type, poplar::Tensor similarTensor, std::string debugName)
      : type(type), similarTensor(similarTensor), debugName(debugName) {}

  ArgType type;
  poplar::Tensor similarTensor;
  std::string debugName;
};

using Signature = std::vector<ArgSig>;

/// An argument that is read; that is written; both; or one that the function makes.
inline ArgSig input(poplar::Tensor similar, std::string debugName = "") {
  return ArgSig(ArgType::InputArg, similar, debugName);
}
inline ArgSig output(poplar::Tensor similar, std::string debugName = "") {
  return ArgSig(ArgType::OutputArg, similar, debugName);
}
inline ArgSig inout(poplar::Tensor similar, std::string debugName = "") {
  return ArgSig(ArgType::InOutArg, similar, debugName);
}
inline ArgSig created(std::string debugName = "") {
  return ArgSig(ArgType::CreatedArg, poplar::Tensor(), debugName);
}

/// A program over tensors of its own. A call copies arguments to these, and results back. An
/// inlined one is made anew for each call.
class VoidFunction {
 public:
  using Body = std::function<void(std::vector<poplar::Tensor> &, poplar::program::Sequence &)>;

  VoidFunction(poplar::Graph &graph, Signature signature, Body f, bool inlined = false,
               const poplar::DebugContext &debugContext = {});

  /// Adds a call to `prog`. Arguments that the function makes are set.
  void operator()(std::vector<poplar::Tensor> &args, poplar::program::Sequence &prog,
                  const poplar::DebugContext &debugContext = {});

 private:
  poplar::Graph &graph_;
  Signature signature_;
  Body body_;
  bool inlined_;
  std::vector<poplar::Tensor> parameters_;
  poplar::Function function_;
};

/// The same with a body that returns its program.
class ProgramFunction {
 public:
  using Body = std::function<poplar::program::Program(std::vector<poplar::Tensor> &)>;

  ProgramFunction(poplar::Graph &graph, Signature signature, Body f, bool inlined = false,
                  const poplar::DebugContext &debugContext = {});

  poplar::program::Program operator()(std::vector<poplar::Tensor> &args,
                                      const poplar::DebugContext &debugContext = {});

 private:
  VoidFunction function_;
};

/// The same with a body that returns a new tensor.
class TensorFunction {
 public:
  using Body =
      std::function<poplar::Tensor(std::vector<poplar::Tensor> &, poplar::program::Sequence &)>;

  TensorFunction(poplar::Graph &graph, Signature signature, Body f, bool inlined = false,
                 const poplar::DebugContext &debugContext = {});

  poplar::Tensor operator()(std::vector<poplar::Tensor> &args, poplar::program::Sequence &prog,
                            const poplar::DebugContext &debugContext = {});

 private:
  VoidFunction function_;
};

}  // namespace graphfn
}  // namespace poputil

#endif  // poputil_GraphFunction_hpp
