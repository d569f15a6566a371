// What a graph is made of, by number.
#ifndef poplar_GraphElements_hpp
#define poplar_GraphElements_hpp

#include <poplar/StringRef.hpp>

#include <cstddef>
#include <limits>

namespace poplar {

namespace core {
struct GraphData;
struct Access;
}  // namespace core

/// Something of a graph by its number.
template <typename Tag>
class GraphElement {
 public:
  GraphElement() : id_(std::numeric_limits<unsigned>::max()) {}
  explicit GraphElement(unsigned id) : id_(id) {}
  unsigned getId() const { return id_; }
  bool operator==(const GraphElement &other) const { return id_ == other.id_; }
  bool operator!=(const GraphElement &other) const { return id_ != other.id_; }

 private:
  unsigned id_;
};

/// Vertices that run together.
class ComputeSet : public GraphElement<ComputeSet> {
 public:
  using GraphElement<ComputeSet>::GraphElement;
};
/// A program that is called.
class Function : public GraphElement<Function> {
 public:
  using GraphElement<Function>::GraphElement;
};
/// A function of the host that a program calls.
class HostFunction : public GraphElement<HostFunction> {
 public:
  using GraphElement<HostFunction>::GraphElement;
};
/// A function kept in remote memory.
class FunctionBuffer : public GraphElement<FunctionBuffer> {
 public:
  using GraphElement<FunctionBuffer>::GraphElement;
};

class FieldRef;

/// A vertex of a graph.
class VertexRef {
 public:
  VertexRef() : graph_(nullptr), id_(0) {}
  unsigned getId() const { return id_; }
  /// A field by name; unknown_field where the vertex has none of it.
  FieldRef operator[](StringRef field) const;
  bool operator==(const VertexRef &other) const { return id_ == other.id_; }

 private:
  friend struct core::Access;
  core::GraphData *graph_;
  unsigned id_;
};

/// A field of a vertex, or one region of it.
class FieldRef {
 public:
  FieldRef() : field_(0), index_(kAll) {}
  FieldRef operator[](std::size_t index) const;
  bool isIndexed() const { return index_ != kAll; }
  std::size_t getIndex() const { return index_; }

 private:
  friend struct core::Access;
  friend class VertexRef;
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  VertexRef vertex_;
  unsigned field_;
  std::size_t index_;
};

}  // namespace poplar

#endif  // poplar_GraphElements_hpp
