// The call of a library's function: its errors and the tensors that it makes.
#ifndef TENSORFLOW_IPU_POPUTIL_CALL_SITE_H_
#define TENSORFLOW_IPU_POPUTIL_CALL_SITE_H_

#include <string>
#include <vector>

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"
#include "poplar/core/LibraryOp.hpp"
#include "poputil/attributes.h"

namespace poputil {

// An option that a function knows. Without words, any value goes.
struct OptionRule {
  const char* name;
  std::vector<const char*> words;
};

// Throws invalid_option for an option that no rule names, and for a value that is none of its
// words.
void CheckOptions(const char* function, const poplar::OptionFlags& options,
                  const std::vector<OptionRule>& rules);

std::string ShapeText(const std::vector<size_t>& shape);

class CallSite {
 public:
  // `function` is the name of the library's function, as users write it.
  CallSite(const char* function, poplar::Graph& graph, const poplar::DebugContext& debug)
      : function_(function), graph_(graph), debug_(debug) {}

  // Throws poplibs_error with the name of the function and the user's line.
  [[noreturn]] void Fail(const std::string& message) const;
  void CheckFloating(const char* name, const poplar::Tensor& tensor) const;
  void CheckFloating(const char* name, const poplar::Type& type) const;
  void CheckType(const char* name, const poplar::Tensor& tensor, const poplar::Type& type) const;
  void CheckRank(const char* name, const poplar::Tensor& tensor, unsigned rank) const;
  void CheckShape(const char* name, const poplar::Tensor& tensor,
                  const std::vector<size_t>& shape) const;

  // A new variable that is mapped linearly.
  poplar::Tensor NewTensor(const poplar::Type& type, const std::vector<size_t>& shape,
                           const char* name = "out") const;
  // A new variable with the layout of `like`.
  poplar::Tensor NewLike(const poplar::Type& type, const poplar::Tensor& like,
                         const char* name = "out") const;

  // Appends the op of a kernel.
  void Add(poplar::program::Sequence& program, const char* kernel, const Attributes& attributes,
           const std::vector<poplar::Tensor>& inputs, const std::vector<poplar::Tensor>& outputs,
           poplar::core::KernelAliasing aliasing = poplar::core::KernelAliasing::None) const;

  poplar::Graph& graph() const { return graph_; }
  const poplar::DebugContext& debug() const { return debug_; }

 private:
  const char* const function_;
  poplar::Graph& graph_;
  const poplar::DebugContext& debug_;
};

}  // namespace poputil

#endif  // TENSORFLOW_IPU_POPUTIL_CALL_SITE_H_
