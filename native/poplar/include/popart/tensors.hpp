// The tensors of a graph.
#ifndef popart_tensors_hpp
#define popart_tensors_hpp

#include <popart/scope.hpp>
#include <popart/tensor.hpp>

namespace popart {

class Tensors {
 public:
  explicit Tensors(Graph &graph) : graph_(graph) {}

  /// The tensor of an id. Throws error if there is none.
  Tensor *get(const TensorId &id) const;
  bool contains(const TensorId &id) const;
  bool contains(const TensorId &id, const Scope &scope) const;
  TensorId find(const TensorId &id, const Scope &scope) const;
  std::vector<TensorId> getAllTensorIds() const;
  size_t n() const { return tensors_.size(); }
  void remove(const TensorId &id);

  void addActGrad(const TensorId &id, const DebugContext &debugContext = {});
  void addStream(const TensorId &id, const TensorInfo &info, const DebugContext &debugContext = {});
  void addConstInit(const TensorId &id, const TensorInfo &info, const void *data,
                    const DebugContext &debugContext = {});
  void addVarInit(const TensorId &id, const TensorInfo &info, const void *data,
                  const DebugContext &debugContext = {});

 private:
  Tensor *lookUp(const TensorId &id) const;
  Tensor *add(const TensorId &id, TensorType type, const DebugContext &debugContext);
  Graph &graph_;
  std::map<TensorId, std::unique_ptr<Tensor>> tensors_;
};

}  // namespace popart

#endif  // popart_tensors_hpp
