// The way of the library into the classes of its users.
#ifndef TENSORFLOW_IPU_POPLAR_ACCESS_H_
#define TENSORFLOW_IPU_POPLAR_ACCESS_H_

#include <memory>
#include <utility>

#include "poplar/DataStream.hpp"
#include "poplar/Device.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Executable.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace poplar::core {

struct Access {
  template <typename T, typename Data>
  static T Make(Data data);

  static const std::shared_ptr<const core::View>& View(const Tensor& tensor) {
    if (!tensor.valid()) throw poplar_error("A Tensor that is not valid was used.");
    return tensor.view_;
  }
  static GraphData* Data(const Graph& graph) { return graph.data_.get(); }
  static const std::shared_ptr<GraphData>& Shared(const Graph& graph) { return graph.data_; }
  static const std::vector<unsigned>* Tiles(const Graph& graph) { return graph.tiles_.get(); }
  static const std::shared_ptr<const TargetData>& Data(const Target& target) {
    return target.data_;
  }
  static std::unique_ptr<DeviceData>& Data(Device& device) { return device.data_; }
  static const DeviceData* Data(const Device& device) { return device.data_.get(); }
  static std::shared_ptr<ProgramNode>& Node(program::Program& program) { return program.node_; }
  static const std::shared_ptr<ProgramNode>& Node(const program::Program& program) {
    return program.node_;
  }
  static const std::shared_ptr<const StreamData>& Data(const DataStream& stream) {
    return stream.data_;
  }
  static const std::shared_ptr<const BufferData>& Data(const RemoteBuffer& buffer) {
    return buffer.data_;
  }
  static std::shared_ptr<ExecutableData>& Data(Executable& executable) { return executable.data_; }
  static const std::shared_ptr<ExecutableData>& Data(const Executable& executable) {
    return executable.data_;
  }

  static EngineData* Data(Engine& engine) { return engine.data_.get(); }

  static Tensor MakeTensor(std::shared_ptr<const core::View> view) {
    Tensor tensor;
    tensor.view_ = std::move(view);
    return tensor;
  }
  static Target MakeTarget(std::shared_ptr<const TargetData> data) {
    return Target(std::move(data));
  }
  static DataStream MakeStream(std::shared_ptr<const StreamData> data) {
    DataStream stream;
    stream.data_ = std::move(data);
    return stream;
  }
  static RemoteBuffer MakeBuffer(std::shared_ptr<const BufferData> data) {
    RemoteBuffer buffer;
    buffer.data_ = std::move(data);
    return buffer;
  }
  static VertexRef MakeVertex(GraphData* graph, unsigned id) {
    VertexRef vertex;
    vertex.graph_ = graph;
    vertex.id_ = id;
    return vertex;
  }
  static GraphData* GraphOf(const VertexRef& vertex) { return vertex.graph_; }
  static const VertexRef& VertexOf(const FieldRef& field) { return field.vertex_; }
  static unsigned FieldOf(const FieldRef& field) { return field.field_; }
  static Graph MakeGraph(std::shared_ptr<GraphData> data,
                         std::shared_ptr<const std::vector<unsigned>> tiles, Target target) {
    Graph graph;
    graph.data_ = std::move(data);
    graph.tiles_ = std::move(tiles);
    graph.target_ = std::move(target);
    return graph;
  }
  static VertexIntrospector MakeIntrospector(const GraphData* graph, unsigned vertex) {
    VertexIntrospector introspector;
    introspector.graph_ = graph;
    introspector.vertex_ = vertex;
    return introspector;
  }

  using Connection = Graph::ConnectionDesc;
  static const std::string& FieldName(const Connection& c) { return c.field_; }
  static const std::vector<Tensor>& Tensors(const Connection& c) { return c.tensors_; }
  static bool IsList(const Connection& c) { return c.isList_; }
  static Type TypeOf(const Connection& c) { return c.type_; }
  static const std::string& Value(const Connection& c) { return c.value_; }
  static Tensor AddConstant(Graph& graph, const Type& type, ArrayRef<size_t> shape,
                            const void* values, const Type& from, bool broadcast,
                            const DebugContext& context) {
    return graph.addConstant(type, shape, values, TypeTraits(), from, broadcast, context);
  }
};

template <>
inline Tensor Access::Make<Tensor>(std::shared_ptr<const core::View> view) {
  return MakeTensor(std::move(view));
}

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_ACCESS_H_
