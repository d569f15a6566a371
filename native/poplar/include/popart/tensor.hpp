// Tensors of graphs.
#ifndef popart_tensor_hpp
#define popart_tensor_hpp

#include <popart/debugcontext.hpp>
#include <popart/tensordata.hpp>
#include <popart/tensorinfo.hpp>
#include <popart/tensorlocation.hpp>
#include <popart/vertex.hpp>

namespace popart {

class Graph;
class Ir;
class Op;

enum class TensorType { ActGrad = 0, Const, Stream, Unknown, Variable, N };

std::ostream &operator<<(std::ostream &os, const TensorType &type);

/// The ops that take a tensor, and how often.
class Consumers {
 public:
  std::vector<Op *> getOps() const;
  int getTotal() const;
  int n(Op *op) const;
  const std::map<Op *, int> &getMap() const { return counts_; }
  void increment(Op *op);
  void decrement(Op *op);

 private:
  std::map<Op *, int> counts_;
  std::vector<Op *> order_;
};

class Tensor : public Vertex {
 public:
  Tensor(TensorId id, TensorType type, Graph &graph, const DebugContext &debugContext = {});
  ~Tensor() override;

  TensorId id;
  Consumers consumers;
  TensorInfo info;

  std::string str() const override { return id; }
  TensorType tensorType() const { return type_; }
  std::string tensor_type() const;
  Graph &getGraph() { return *graph_; }
  const Graph &getGraph() const { return *graph_; }
  Ir &getIr();
  const Ir &getIr() const;

  Op *getProducer() const;
  Op *getProducerUnsafe() const { return producer_; }
  bool hasProducer() const { return producer_ != nullptr; }
  void setProducer(Op *op);
  void resetProducer(Op *op) { producer_ = op; }

  bool isGraphInput() const;
  bool isGraphOutput() const;
  bool isAnchored() const;
  bool isOptimizerTensor() const { return false; }
  bool isAccumulatorTensor() const { return false; }
  bool isWeightTensor() const { return type_ == TensorType::Variable; }
  bool hasTensorData() const { return data_ != nullptr; }
  TensorData *tensorData();
  const TensorData *tensorData() const;
  void setTensorDataFromCopyOf(const void *source, size_t size);
  void setTensorType(TensorType type) { type_ = type; }
  bool hasVirtualGraphId() const;
  VGraphId getVirtualGraphId() const;
  VGraphId getVirtualGraphIdUnsafe() const;

 private:
  TensorType type_;
  Graph *graph_;
  Op *producer_ = nullptr;
  std::unique_ptr<TensorData> data_;
};

}  // namespace popart

#endif  // popart_tensor_hpp
