// Describes vertices to the library, in sources that popc writes. Needs -fno-access-control.
#ifndef poplar_core_DescribeCodelets_hpp
#define poplar_core_DescribeCodelets_hpp

#include <poplar/Vertex.hpp>
#include <poplar/core/CodeletTable.hpp>

#include <type_traits>

namespace poplar {
namespace core {

/// The text of a type, as the compiler prints it.
template <typename T>
const char *prettyName() {
  return __PRETTY_FUNCTION__;
}

template <typename T>
CodeletField field(const char *name, FieldAccess access, FieldForm form, std::size_t offset,
                   std::size_t align = alignof(T)) {
  static_assert(std::is_arithmetic<T>::value || std::is_enum<T>::value ||
                    std::is_same<T, half>::value || std::is_same<T, quarter>::value,
                "unsupported field type");
  return {name,   access,    form, prettyName<typename std::remove_cv<T>::type>(),
          offset, sizeof(T), align};
}

/// Describes a field by its type.
template <typename F>
struct Describe {
  static CodeletField as(const char *name, std::size_t offset) {
    return field<typename std::remove_cv<F>::type>(name, FieldAccess::State, FieldForm::Scalar,
                                                   offset);
  }
};
template <typename F>
struct Describe<const F> : Describe<F> {};

template <typename T, VectorLayout L, unsigned A, bool I>
struct Describe<Vector<T, L, A, I>> {
  static CodeletField as(const char *name, std::size_t offset) {
    return field<T>(name, FieldAccess::State, FieldForm::Vector, offset, A);
  }
};

#define POPLAR_DESCRIBE_EDGE(EDGE, ACCESS)                                                   \
  template <typename T>                                                                      \
  struct Describe<EDGE<T>> {                                                                 \
    static CodeletField as(const char *name, std::size_t offset) {                           \
      return field<T>(name, FieldAccess::ACCESS, FieldForm::Scalar, offset);                 \
    }                                                                                        \
  };                                                                                         \
  template <typename T, VectorLayout L, unsigned A, bool I>                                  \
  struct Describe<EDGE<Vector<T, L, A, I>>> {                                                \
    static CodeletField as(const char *name, std::size_t offset) {                           \
      return field<T>(name, FieldAccess::ACCESS, FieldForm::Vector, offset, A);              \
    }                                                                                        \
  };                                                                                         \
  template <typename T, VectorListLayout L, unsigned A, bool I>                              \
  struct Describe<EDGE<VectorList<T, L, A, I>>> {                                            \
    static CodeletField as(const char *name, std::size_t offset) {                           \
      return field<T>(name, FieldAccess::ACCESS, FieldForm::RegionList, offset, A);          \
    }                                                                                        \
  };                                                                                         \
  template <typename T, VectorLayout L, unsigned A, bool I>                                  \
  struct Describe<Vector<EDGE<T>, L, A, I>> {                                                \
    static CodeletField as(const char *name, std::size_t offset) {                           \
      return field<T>(name, FieldAccess::ACCESS, FieldForm::EdgeList, offset);               \
    }                                                                                        \
  };                                                                                         \
  template <typename T, VectorLayout L1, unsigned A1, bool I1, VectorLayout L2, unsigned A2, \
            bool I2>                                                                         \
  struct Describe<Vector<EDGE<Vector<T, L1, A1, I1>>, L2, A2, I2>> {                         \
    static CodeletField as(const char *name, std::size_t offset) {                           \
      return field<T>(name, FieldAccess::ACCESS, FieldForm::RegionList, offset, A1);         \
    }                                                                                        \
  };
POPLAR_DESCRIBE_EDGE(Input, Read)
POPLAR_DESCRIBE_EDGE(Output, Write)
POPLAR_DESCRIBE_EDGE(InOut, ReadWrite)
#undef POPLAR_DESCRIBE_EDGE

template <typename V>
constexpr VertexKind kindOf() {
  return std::is_base_of<MultiVertex, V>::value        ? VertexKind::MultiVertex
         : std::is_base_of<SupervisorVertex, V>::value ? VertexKind::Supervisor
                                                       : VertexKind::Vertex;
}

/// Runs a vertex; `compute` may return nothing, which is success.
template <typename V>
bool runVertex(void *vertex, unsigned worker) {
  V &v = *static_cast<V *>(vertex);
  if constexpr (std::is_base_of<MultiVertex, V>::value) {
    if constexpr (std::is_void<decltype(v.compute(worker))>::value) {
      v.compute(worker);
      return true;
    } else {
      return static_cast<bool>(v.compute(worker));
    }
  } else {
    if constexpr (std::is_void<decltype(v.compute())>::value) {
      v.compute();
      return true;
    } else {
      return static_cast<bool>(v.compute());
    }
  }
}

template <typename V>
CodeletType describeVertex(const CodeletField *fields, std::size_t numFields) {
  return {prettyName<V>(), kindOf<V>(), sizeof(V), alignof(V), fields, numFields, &runVertex<V>};
}

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_DescribeCodelets_hpp
