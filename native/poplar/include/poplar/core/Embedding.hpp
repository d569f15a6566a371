// Operations of other frameworks that are Poplar programs: they run on the caller's buffers.
#ifndef poplar_core_Embedding_hpp
#define poplar_core_Embedding_hpp

#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/core/LibraryOp.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace poplar {
namespace core {

/// Adds an operation to a graph. Returns its program, and appends a tensor for each output.
using EmbeddingBuilder = std::function<program::Program(
    Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs)>;

/// Returns a tensor of the shape and type of an input, mapped as the input shall be, or an invalid
/// tensor for the linear mapping.
using EmbeddingAllocator = std::function<Tensor(Graph &graph, unsigned input)>;

/// What an embedded operation is made of.
struct EmbeddingSpec {
  /// In errors and reports.
  std::string name;
  /// Of one replica.
  Target target;
  unsigned replicas = 1;
  std::vector<KernelTensor> inputs, outputs;
  /// Input to output: both are one buffer of the caller, which the program may change.
  std::map<unsigned, unsigned> aliases;
  /// A file of codelets that is added to the graph first; "" for none.
  std::string codelets;
  EmbeddingBuilder build;
  /// May be empty: all inputs are mapped linearly.
  EmbeddingAllocator allocate;
  /// Whether an invalid output tensor stands for zeros (a gradient that is not there).
  bool invalidIsZero = false;
  /// Of the engine.
  OptionFlags options;
};

/// The state of an embedded operation on one replica or on all: variables that the program keeps
/// from run to run. Not for several threads at a time.
class EmbeddingInstance {
 public:
  struct Data;

  explicit EmbeddingInstance(std::unique_ptr<Data> data);
  ~EmbeddingInstance();

  /// Runs the operation. Buffers hold the elements in row-major order; those of each replica follow
  /// those of the replica before. Where an output shares memory with an input
  /// (`Embedding::aliases`) the caller passes one buffer for both, or the input is copied to the
  /// output's and keeps its value. Nothing is copied where buffers are aligned to 64 bytes, and
  /// pointers are renewed only where they differ from those of the last run.
  void run(const std::vector<const void *> &inputs, const std::vector<void *> &outputs);

 private:
  std::unique_ptr<Data> data_;
};

/// A compiled operation.
class Embedding {
 public:
  struct Data;

  /// Calls the builder once, and compiles the program. Throws what the builder throws, and
  /// poplar_error for outputs that are not as declared.
  explicit Embedding(const EmbeddingSpec &spec);
  ~Embedding();

  /// Whether replicas exchange data in the program, so that it has to run for all at once.
  bool exchanges() const;

  /// Makes the state of one replica. Its runs fail if the program exchanges data with others.
  std::unique_ptr<EmbeddingInstance> instantiate(unsigned replica = 0) const;

  /// Makes the state of all replicas, which run together.
  std::unique_ptr<EmbeddingInstance> instantiateAll() const;

  /// The output that shares memory with an input, by input: the declared ones, and outputs that are
  /// inputs.
  const std::map<unsigned, unsigned> &aliases() const;

  /// Returns memory by tile and cycles of one run, as JSON.
  std::string describe() const;

 private:
  std::shared_ptr<const Data> data_;
};

/// Completes the specification of an operation, which has its name, target, inputs and outputs,
/// from the text of its attributes.
using EmbeddingFactory =
    std::function<void(const std::string &attributes, EmbeddingSpec &specification)>;

/// Makes a kind of operations known by a name: a static object of the library that has them. A
/// later one of the same name takes its place.
struct EmbeddingRegistration {
  EmbeddingRegistration(const std::string &name, EmbeddingFactory factory);
};

/// Throws link_error for a name that nothing has registered.
EmbeddingFactory findEmbedding(const std::string &name);

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_Embedding_hpp
