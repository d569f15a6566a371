// Graphs: variables, vertices, and where they are.
#ifndef poplar_Graph_hpp
#define poplar_Graph_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/CodeletFileType.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/FunctionBufferMappingType.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/Interval.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/PerfEstimateFunc.hpp>
#include <poplar/RemoteBuffer.hpp>
#include <poplar/ReplicatedStreamMode.hpp>
#include <poplar/ReplicationFactor.hpp>
#include <poplar/SerializationFormat.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/TensorCloneMethod.hpp>
#include <poplar/Type.hpp>
#include <poplar/VariableMappingMethod.hpp>
#include <poplar/exceptions.hpp>

#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace poplar {

namespace program {
class Program;
}  // namespace program

namespace core {
struct GraphData;
struct Access;
}  // namespace core

using HostFunctionArgument = std::tuple<Type, std::size_t>;

/// Variables, constants, vertices and their places on the tiles of a target.
class Graph {
 public:
  using TileToTensorMapping = std::vector<std::vector<Interval>>;

  /// A field and what it is connected to: a tensor, several, or a value.
  class ConnectionDesc {
   public:
    ConnectionDesc(StringRef field, Tensor tensor)
        : field_(field.cloneAsString()), tensors_(1, std::move(tensor)) {}
    ConnectionDesc(StringRef field, ArrayRef<Tensor> tensors)
        : field_(field.cloneAsString()), tensors_(tensors.cloneAsVector()), isList_(true) {}
    ConnectionDesc(StringRef field, const std::vector<Tensor> &tensors)
        : ConnectionDesc(field, ArrayRef<Tensor>(tensors)) {}
    template <typename T, typename = typename std::enable_if<TypeTraits::isSimpleType<T>()>::type>
    ConnectionDesc(StringRef field, T value)
        : field_(field.cloneAsString()),
          type_(equivalent_device_type<T>().value),
          value_(reinterpret_cast<const char *>(&value), sizeof(T)) {}

   private:
    friend struct core::Access;
    std::string field_;
    std::vector<Tensor> tensors_;
    bool isList_ = false;
    Type type_;
    std::string value_;
  };

  Graph();
  explicit Graph(const Target &target, replication_factor factor = replication_factor(1));
  explicit Graph(const Device &device, replication_factor factor = replication_factor(1));
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  Graph(Graph &&) noexcept;
  Graph &operator=(Graph &&) noexcept;
  ~Graph();

  const Target &getTarget() const;
  unsigned getReplicationFactor() const;

  // Codelets.
  bool addCodelets(StringRef file, CodeletFileType type = CodeletFileType::Auto,
                   StringRef compileFlags = "", StringRef targetName = "");
  void addCodelets(ArrayRef<std::string> files, StringRef compileFlags = "",
                   StringRef targetName = "");
  void addCodelets(std::stringstream &source, StringRef compileFlags = "",
                   CodeletFileType type = CodeletFileType::CppSource, StringRef targetName = "");
  bool hasCodelet(StringRef vertexType) const;

  // Variables and constants.
  Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape,
                     const DebugContext &debugContext = {});
  Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape, VariableMappingMethod method,
                     const DebugContext &debugContext = {});
  /// A variable of QUARTER. It and its clones have the metadata, which casts use.
  Tensor addVariable(const Type &type, const Tensor &metadata, ArrayRef<std::size_t> shape,
                     const DebugContext &debugContext = {});
  Tensor addVariable(const Type &type, const Tensor &metadata, ArrayRef<std::size_t> shape,
                     VariableMappingMethod method, const DebugContext &debugContext = {});
  template <typename T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, ArrayRef<T> values,
                     const DebugContext &debugContext = {}) {
    if (values.size() != 1 && values.size() != countOf(shape)) wrongCount(shape, values.size());
    return addConstant(type, shape, values.data(), TypeTraits::make<T>(), typeOf<T>(),
                       values.size() == 1, debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, const std::vector<T> &values,
                     const DebugContext &debugContext = {}) {
    return addConstant(type, shape, ArrayRef<T>(values), debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, std::initializer_list<T> values,
                     const DebugContext &debugContext = {}) {
    return addConstant(type, shape, ArrayRef<T>(values.begin(), values.size()), debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, const T *values,
                     const DebugContext &debugContext = {}) {
    return addConstant(type, shape, values, TypeTraits::make<T>(), typeOf<T>(), false,
                       debugContext);
  }
  template <typename T, typename = typename std::enable_if<TypeTraits::isSimpleType<T>()>::type>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, T value,
                     const DebugContext &debugContext = {}) {
    return addConstant(type, shape, &value, TypeTraits::make<T>(), typeOf<T>(), true, debugContext);
  }
  Tensor addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, std::uint16_t value,
                         const DebugContext &debugContext = {});
  Tensor addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, const std::uint16_t *values,
                         const DebugContext &debugContext = {});
  Tensor clone(const Type &type, const Tensor &tensor, const DebugContext &debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor clone(const Tensor &tensor, const DebugContext &debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor cloneN(const Type &type, const Tensor &tensor, std::size_t count,
                const DebugContext &debugContext = {},
                TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES,
                TensorCloneDuplicationMethod duplication =
                    TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION);
  Tensor cloneN(const Tensor &tensor, std::size_t count, const DebugContext &debugContext = {},
                TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES,
                TensorCloneDuplicationMethod duplication =
                    TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION);
  template <typename T, typename = typename std::enable_if<TypeTraits::isSimpleType<T>()>::type>
  void setInitialValue(const Tensor &tensor, T value) {
    setInitialValue(tensor, &value, typeOf<T>(), true);
  }
  template <typename T>
  void setInitialValue(const Tensor &tensor, ArrayRef<T> values) {
    if (values.size() != tensor.numElements()) wrongCount(tensor.shape(), values.size());
    setInitialValue(tensor, values.data(), typeOf<T>(), false);
  }
  template <typename T>
  void setInitialValue(const Tensor &tensor, const std::vector<T> &values) {
    setInitialValue(tensor, ArrayRef<T>(values));
  }
  void setInitialValueHalf(const Tensor &tensor, std::uint16_t value);
  void setInitialValueHalf(const Tensor &tensor, ArrayRef<std::uint16_t> values);
  bool isConstant(VariableRef variable) const;
  /// The whole variable, as a tensor of rank 1.
  Tensor getVariable(VariableRef variable) const;

  // Places.
  void setTileMapping(VertexRef vertex, unsigned tile);
  void setTileMapping(const Tensor &tensor, unsigned tile);
  void setTileMapping(const Tensor &tensor, const TileToTensorMapping &mapping);
  TileToTensorMapping getTileMapping(const Tensor &tensor, bool requireComplete = true,
                                     bool allowExternal = false) const;
  TileToTensorMapping getTileMapping(const Tensor &tensor, bool *isComplete,
                                     bool allowExternal = false) const;
  TileToTensorMapping getVariableTileMapping(const Tensor &tensor) const {
    return getTileMapping(tensor, false);
  }
  Graph createVirtualGraph(unsigned tilesPerIPU);
  Graph createVirtualGraph(unsigned lowerTile, unsigned upperTile);
  Graph createVirtualGraph(const std::vector<unsigned> &tiles);
  Graph getTopLevelGraph();
  unsigned convertVirtualTileToPhysicalTile(unsigned tile) const;
  unsigned convertPhysicalTileToVirtualTile(unsigned tile) const;
  unsigned convertTileToTopLevelGraphTile(unsigned tile) const {
    return convertVirtualTileToPhysicalTile(tile);
  }
  unsigned convertTopLevelGraphTileToTile(unsigned tile) const {
    return convertPhysicalTileToVirtualTile(tile);
  }
  std::vector<std::vector<Interval>> getSortedContiguousRegions(
      const Tensor &tensor, ArrayRef<Interval> regions, bool removeAliasedIntervals = false,
      std::vector<std::size_t> *aliases = nullptr) const;
  void reorderToSimplify(Tensor *tensor, ArrayRef<Tensor *> others,
                         bool requireSimplestOrder = true) const;
  Tensor findUnbroadcastTensor(const Tensor &tensor) const;
  TensorRearranger getSimplifyingRearranger(const Tensor &tensor) const;

  // Vertices.
  ComputeSet addComputeSet(const DebugContext &debugContext = {});
  VertexRef addVertex(ComputeSet computeSet, StringRef vertexType);
  VertexRef addVertex(ComputeSet computeSet, StringRef vertexType,
                      ArrayRef<ConnectionDesc> connections);
  void connect(FieldRef field, const Tensor &tensor);
  void connect(FieldRef field, ArrayRef<Tensor> tensors);
  template <typename T, typename = typename std::enable_if<TypeTraits::isSimpleType<T>()>::type>
  void connect(FieldRef field, T value) {
    connect(field, addConstant(typeOf<T>(), {}, value));
  }
  template <typename T, typename = typename std::enable_if<TypeTraits::isSimpleType<T>() ||
                                                           std::is_enum<T>::value>::type>
  void setInitialValue(FieldRef field, T value) {
    setInitialValue(field, &value, sizeof(T), stateTypeOf<T>(), 1, false);
  }
  template <typename T>
  void setInitialValue(FieldRef field, ArrayRef<T> values) {
    setInitialValue(field, values.data(), sizeof(T), stateTypeOf<T>(), values.size(), true);
  }
  template <typename T>
  void setInitialValue(FieldRef field, const std::vector<T> &values) {
    setInitialValue(field, ArrayRef<T>(values));
  }
  void setInitialValueHalf(FieldRef field, std::uint16_t value);
  void setInitialValueHalf(FieldRef field, ArrayRef<std::uint16_t> values);
  void setFieldSize(FieldRef field, std::size_t size);
  std::size_t getFieldSize(FieldRef field) const;
  std::size_t getMaxFieldDim(StringRef vertexType, StringRef field, unsigned dimension) const;
  double getMaxVertexFieldValue(StringRef vertexType, StringRef field) const;
  template <typename T>
  T getMaxVertexFieldValueAs(StringRef vertexType, StringRef field) const {
    return static_cast<T>(getMaxVertexFieldValue(vertexType, field));
  }
  void setPerfEstimate(const VertexRef &vertex, std::uint64_t cycles, std::uint64_t flops = 0);
  void setPerfEstimate(const VertexRef &vertex, const VertexPerfEstimate &estimate) {
    setPerfEstimate(vertex, estimate.cycles, estimate.flops);
  }
  VertexPerfEstimate getPerfEstimate(const VertexRef &vertex) const;
  void registerPerfEstimator(StringRef vertexType, PerfEstimateFunc estimator);
  void setCycleEstimate(const VertexRef &vertex, std::uint64_t cycles) {
    setPerfEstimate(vertex, cycles);
  }
  std::uint64_t getCycleEstimate(const VertexRef &vertex) const {
    return getPerfEstimate(vertex).cycles;
  }
  void registerCycleEstimator(StringRef vertexType, CycleEstimateFunc estimator) {
    registerPerfEstimator(vertexType, [estimator](const VertexIntrospector &v, const Target &t) {
      return VertexPerfEstimate(estimator(v, t));
    });
  }
  unsigned getNumVertices() const;

  // Host access, streams and functions.
  void createHostWrite(StringRef handle, const Tensor &tensor, bool rearrangeOnHost = false);
  void createHostRead(StringRef handle, const Tensor &tensor, bool rearrangeOnHost = false);
  DataStream addHostToDeviceFIFO(StringRef handle, const Type &type, std::size_t numElements,
                                 ReplicatedStreamMode mode = ReplicatedStreamMode::REPLICATE,
                                 const OptionFlags &options = OptionFlags());
  DataStream addDeviceToHostFIFO(StringRef handle, const Type &type, std::size_t numElements,
                                 const OptionFlags &options = OptionFlags());
  RemoteBuffer addRemoteBuffer(StringRef handle, const Type &type, std::size_t numElements,
                               std::size_t repeats = 1, bool rearrangeOnHost = false,
                               bool optimiseMemory = false);
  HostFunction addHostFunction(StringRef handle, ArrayRef<HostFunctionArgument> inputs,
                               ArrayRef<HostFunctionArgument> outputs);
  Function addFunction(const program::Program &program);
  FunctionBuffer addFunctionBuffer(Function function, FunctionBufferMappingType type);
  Tensor addReplicationIndexConstant(const DebugContext &debugContext = {});

  // Text of the graph.
  void outputVertexGraph(std::ostream &os, ArrayRef<program::Program> programs = {}) const;
  void outputComputeGraph(std::ostream &os, ArrayRef<program::Program> programs = {}) const;

  // The graph in a file, for people and tools: variables, compute sets and vertices as JSON, in
  // both formats.
  void serialize(std::ostream &os, SerializationFormat format) const;
  void serialize(std::ostream &os, ArrayRef<program::Program> programs,
                 SerializationFormat format) const;
  /// Shapes, types and tiles of tensors; `deserializeTensors` adds such variables to a graph.
  void serializeTensors(std::ostream &os, ArrayRef<Tensor> tensors,
                        SerializationFormat format) const;
  std::vector<Tensor> deserializeTensors(std::istream &is, SerializationFormat format);

 private:
  friend struct core::Access;

  static std::size_t countOf(ArrayRef<std::size_t> shape) {
    std::size_t count = 1;
    for (std::size_t size : shape) count *= size;
    return count;
  }
  template <typename T>
  static Type typeOf() {
    return equivalent_device_type<T>().value;
  }
  template <typename T>
  static typename std::enable_if<!std::is_enum<T>::value, Type>::type stateTypeOf() {
    return typeOf<T>();
  }
  template <typename T>
  static typename std::enable_if<std::is_enum<T>::value, Type>::type stateTypeOf() {
    return typeOf<typename std::underlying_type<T>::type>();
  }
  [[noreturn]] static void wrongCount(ArrayRef<std::size_t> shape, std::size_t count);
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, const void *values,
                     const TypeTraits &traits, const Type &from, bool broadcast,
                     const DebugContext &debugContext);
  void setInitialValue(const Tensor &tensor, const void *values, const Type &from, bool broadcast);
  void setInitialValue(FieldRef field, const void *values, std::size_t size, const Type &from,
                       std::size_t count, bool isList);

  std::shared_ptr<core::GraphData> data_;
  // The tiles of a virtual graph, by their number in the whole; null for the whole.
  std::shared_ptr<const std::vector<unsigned>> tiles_;
  Target target_;
};

}  // namespace poplar

#endif  // poplar_Graph_hpp
