#include "kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "access.h"
#include "graph_data.h"
#include "parallel_for.h"

namespace poplar::core {
namespace {

template <typename Factory>
std::map<std::string, Factory>& Factories() {
  static std::map<std::string, Factory> factories;
  return factories;
}

// Loads a library that is beside this one. An executable from a file may need it, though its
// program does not call it.
void LoadLibrary(const std::string& name) {
  const bool is_word =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c); });
  Dl_info info;
  if (!is_word || dladdr(reinterpret_cast<void*>(&LoadLibrary), &info) == 0) return;
  const std::string path = info.dli_fname;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  dlopen((folder + "lib" + name + ".so").c_str(), RTLD_NOW | RTLD_GLOBAL);
}

template <typename Factory>
typename Factory::result_type Make(const KernelSpec& spec) {
  const std::string library = spec.name.substr(0, spec.name.find(':'));
  auto found = Factories<Factory>().find(spec.name);
  if (found == Factories<Factory>().end()) {
    LoadLibrary(library);
    found = Factories<Factory>().find(spec.name);
  }
  if (found != Factories<Factory>().end()) return found->second(spec);
  throw link_error("The program has the op '" + spec.name + "', and its library is not loaded: " +
                       "link the program with -l" + library + ".",
                   "");
}

program::Program OpOf(ProgramKind kind, const std::string& name, const std::string& parameters,
                      const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                      const DebugContext& debugContext, KernelAliasing aliasing) {
  program::Program program;
  auto node = std::make_shared<ProgramNode>();
  node->kind = kind;
  node->name = debugContext.getPathName();
  node->location = debugContext.location();
  node->text = name;
  node->parameters = parameters;
  node->inputs = inputs;
  node->outputs = outputs;
  node->flag = aliasing == KernelAliasing::SameTensor;
  Access::Node(program) = std::move(node);
  return program;
}

}  // namespace

KernelRegistration::KernelRegistration(const std::string& name, KernelFactory factory) {
  Factories<KernelFactory>()[name] = std::move(factory);
}

CollectiveRegistration::CollectiveRegistration(const std::string& name, CollectiveFactory factory) {
  Factories<CollectiveFactory>()[name] = std::move(factory);
}

std::unique_ptr<Kernel> MakeKernel(const KernelSpec& spec) { return Make<KernelFactory>(spec); }

std::unique_ptr<CollectiveKernel> MakeCollective(const KernelSpec& spec) {
  return Make<CollectiveFactory>(spec);
}

program::Program libraryOp(Graph&, const std::string& name, const std::string& parameters,
                           const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                           const DebugContext& debugContext, KernelAliasing aliasing) {
  return OpOf(ProgramKind::kLibraryOp, name, parameters, inputs, outputs, debugContext, aliasing);
}

void addToComputeSet(Graph& graph, ComputeSet computeSet, const program::Program& op) {
  auto& compute_sets = Access::Data(graph)->compute_sets;
  if (computeSet.getId() >= compute_sets.size()) {
    throw poplar_error("The compute set is not one of this graph.");
  }
  compute_sets[computeSet.getId()].ops.push_back(op);
}

program::Program collectiveOp(Graph&, const std::string& name, const std::string& parameters,
                              const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                              const DebugContext& debugContext) {
  return OpOf(ProgramKind::kCollectiveOp, name, parameters, inputs, outputs, debugContext,
              KernelAliasing::SameTensor);
}

void parallelFor(size_t count, size_t grain, const std::function<void(size_t, size_t)>& work) {
  ParallelFor(count, grain, work);
}

}  // namespace poplar::core
