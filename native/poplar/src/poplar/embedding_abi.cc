#include "poplar/core/EmbeddingAbi.h"

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codelets.h"
#include "poplar/core/Embedding.hpp"
#include "types.h"

namespace poplar::core {
namespace {

using program::Program;

// ---- the functions of TensorFlow's custom operations, by API level

// Without attributes before level 2.
using Build1 = Program(Graph&, const std::vector<Tensor>&, std::vector<Tensor>&,
                       const std::string& prefix);
using Build2 = Program(Graph&, const std::vector<Tensor>&, std::vector<Tensor>&,
                       const std::string& attributes, const std::string& prefix);
using BuildGrad1 = Program(Graph&, int, const std::vector<Tensor>&, const std::vector<Tensor>&,
                           const std::vector<Tensor>&, std::vector<Tensor>&,
                           const std::string& prefix);
using BuildGrad2 = Program(Graph&, int, const std::vector<Tensor>&, const std::vector<Tensor>&,
                           const std::vector<Tensor>&, std::vector<Tensor>&,
                           const std::string& attributes, const std::string& prefix);
using Allocate1 = Tensor(Graph&, uint32_t, const std::vector<size_t>&, Type,
                         const std::string& prefix);
using Allocate2 = Tensor(Graph&, uint32_t, const std::vector<size_t>&, Type,
                         const std::string& attributes, const std::string& prefix);

constexpr int kLevelOfAttributes = 2;

struct Functions {
  void* build;
  void* allocate;
  bool with_attributes;
  std::string attributes, name;
  size_t num_gradients;
  int input_grad_index;

  Program Build(Graph& graph, const std::vector<Tensor>& inputs,
                std::vector<Tensor>& outputs) const {
    if (num_gradients > 0) return BuildGradient(graph, inputs, outputs);
    if (with_attributes) {
      return reinterpret_cast<Build2*>(build)(graph, inputs, outputs, attributes, name);
    }
    return reinterpret_cast<Build1*>(build)(graph, inputs, outputs, name);
  }

  Program BuildGradient(Graph& graph, const std::vector<Tensor>& inputs,
                        std::vector<Tensor>& outputs) const {
    const auto results = inputs.begin() + num_gradients;
    const std::vector<Tensor> gradients(inputs.begin(), results);
    const std::vector<Tensor> forward_outputs(results, results + num_gradients);
    const std::vector<Tensor> forward_inputs(results + num_gradients, inputs.end());
    if (with_attributes) {
      return reinterpret_cast<BuildGrad2*>(build)(graph, input_grad_index, gradients,
                                                  forward_inputs, forward_outputs, outputs,
                                                  attributes, name);
    }
    return reinterpret_cast<BuildGrad1*>(build)(graph, input_grad_index, gradients, forward_inputs,
                                                forward_outputs, outputs, name);
  }

  Tensor Allocate(Graph& graph, unsigned input, const KernelTensor& tensor) const {
    if (with_attributes) {
      return reinterpret_cast<Allocate2*>(allocate)(graph, input, tensor.shape, tensor.type,
                                                    attributes, name);
    }
    return reinterpret_cast<Allocate1*>(allocate)(graph, input, tensor.shape, tensor.type, name);
  }
};

std::vector<KernelTensor> Tensors(const poplar_embedding_tensor* tensors, int32_t count) {
  std::vector<KernelTensor> result;
  for (int32_t i = 0; i < count; ++i) {
    const poplar_embedding_tensor& tensor = tensors[i];
    result.push_back({TypeOfName(tensor.type, 0),
                      std::vector<size_t>(tensor.shape, tensor.shape + tensor.rank)});
  }
  return result;
}

void UseFunctions(const poplar_embedding_operation& operation, EmbeddingSpec* spec) {
  const Functions functions{
      operation.build,           operation.allocate, operation.api_level >= kLevelOfAttributes,
      operation.attributes,      operation.name,     static_cast<size_t>(operation.num_gradients),
      operation.input_grad_index};
  spec->build = [functions](Graph& graph, const std::vector<Tensor>& inputs,
                            std::vector<Tensor>& outputs) {
    return functions.Build(graph, inputs, outputs);
  };
  spec->invalidIsZero = operation.num_gradients > 0;
  for (int32_t i = 0; i < operation.num_inputs; ++i) {
    if (operation.aliased_output[i] >= 0) spec->aliases[i] = operation.aliased_output[i];
  }
  if (operation.allocate == nullptr) return;
  const std::vector<uint8_t> allocates(operation.allocates,
                                       operation.allocates + operation.num_inputs);
  spec->allocate = [functions, allocates, inputs = spec->inputs](Graph& graph, unsigned input) {
    return allocates[input] != 0 ? functions.Allocate(graph, input, inputs[input]) : Tensor();
  };
}

EmbeddingSpec SpecOf(const poplar_embedding_operation& operation) {
  EmbeddingSpec spec;
  spec.name = operation.name;
  spec.target = Target::createIPUTarget(operation.ipus, operation.tiles_per_ipu, operation.chip);
  spec.replicas = operation.replicas;
  spec.inputs = Tensors(operation.inputs, operation.num_inputs);
  spec.outputs = Tensors(operation.outputs, operation.num_outputs);
  spec.codelets = operation.codelets;
  if (*operation.kind != '\0') {
    findEmbedding(operation.kind)(operation.attributes, spec);
  } else {
    UseFunctions(operation, &spec);
  }
  return spec;
}

// Calls a function; returns null, or the text of what it throws.
template <typename Function>
char* TextOfError(Function function) {
  std::string text;
  try {
    function();
    return nullptr;
  } catch (const poplar_error& error) {
    text = error.type + ": " + error.what();
  } catch (const std::exception& error) {
    text = std::string("exception: ") + error.what();
  } catch (...) {
    text = "exception: an exception of an unknown type";
  }
  return strdup(text.c_str());
}

}  // namespace
}  // namespace poplar::core

using poplar::core::Embedding;
using poplar::core::EmbeddingInstance;
using poplar::core::EmbeddingSpec;

struct poplar_embedding {
  std::unique_ptr<Embedding> embedding;
  EmbeddingSpec specification;
};

struct poplar_embedding_instance {
  std::unique_ptr<EmbeddingInstance> instance;
  size_t num_inputs, num_outputs;  // of all its replicas
};

extern "C" {

poplar_embedding_make_t poplar_embedding_make;
poplar_embedding_free_t poplar_embedding_free;
poplar_embedding_alias_t poplar_embedding_alias;
poplar_embedding_describe_t poplar_embedding_describe;
poplar_embedding_exchanges_t poplar_embedding_exchanges;
poplar_embedding_instantiate_t poplar_embedding_instantiate;
poplar_embedding_instance_free_t poplar_embedding_instance_free;
poplar_embedding_run_t poplar_embedding_run;
poplar_set_popc_t poplar_set_popc;

poplar_embedding* poplar_embedding_make(const poplar_embedding_operation* operation, char** error) {
  auto result = std::make_unique<poplar_embedding>();
  *error = poplar::core::TextOfError([&] {
    result->specification = poplar::core::SpecOf(*operation);
    result->embedding = std::make_unique<Embedding>(result->specification);
  });
  return *error == nullptr ? result.release() : nullptr;
}

void poplar_embedding_free(poplar_embedding* embedding) { delete embedding; }

int32_t poplar_embedding_alias(const poplar_embedding* embedding, int32_t input) {
  const auto& aliases = embedding->embedding->aliases();
  const auto found = aliases.find(static_cast<unsigned>(input));
  return found == aliases.end() ? -1 : static_cast<int32_t>(found->second);
}

char* poplar_embedding_describe(const poplar_embedding* embedding) {
  return strdup(embedding->embedding->describe().c_str());
}

int32_t poplar_embedding_exchanges(const poplar_embedding* embedding) {
  return embedding->embedding->exchanges() ? 1 : 0;
}

poplar_embedding_instance* poplar_embedding_instantiate(const poplar_embedding* embedding,
                                                        int32_t replica, char** error) {
  auto result = std::make_unique<poplar_embedding_instance>();
  const Embedding& of = *embedding->embedding;
  const EmbeddingSpec& specification = embedding->specification;
  *error = poplar::core::TextOfError(
      [&] { result->instance = replica < 0 ? of.instantiateAll() : of.instantiate(replica); });
  const size_t replicas = replica < 0 ? specification.replicas : 1;
  result->num_inputs = replicas * specification.inputs.size();
  result->num_outputs = replicas * specification.outputs.size();
  return *error == nullptr ? result.release() : nullptr;
}

void poplar_embedding_instance_free(poplar_embedding_instance* instance) { delete instance; }

char* poplar_embedding_run(poplar_embedding_instance* instance, const void* const* inputs,
                           void* const* outputs) {
  return poplar::core::TextOfError([&] {
    // Not in braces, which would make lists of two pointers.
    const std::vector<const void*> sources(inputs, inputs + instance->num_inputs);
    const std::vector<void*> targets(outputs, outputs + instance->num_outputs);
    instance->instance->run(sources, targets);
  });
}

void poplar_set_popc(const char* command) { poplar::core::SetPopc(command); }

}  // extern "C"
