// Fields of vertices that are connected to tensors, and arrays of state.
#ifndef poplar_FieldTypes_hpp
#define poplar_FieldTypes_hpp

#include <cstddef>
#include <type_traits>

namespace poplar {

/// How the chip stores the place and size of a vector. All are alike here.
enum class VectorLayout {
  NOT_A_VECTOR,
  SPAN,
  SHORT_SPAN,
  ONE_PTR,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  COMPACT_PTR
};
enum class VectorListLayout {
  NOT_A_VECTOR,
  ONE_PTR,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  DELTAN,
  DELTANELEMENTS,
  COMPACT_DELTAN
};

namespace codelets {

/// Who reads and writes a field. The numbers are those of `core::FieldKind` of the library.
enum class Access : unsigned { State = 0, Read = 1, Write = 2, ReadWrite = 3 };

/// Elements in memory. Everything that is an array or a region has this form.
template <typename T>
struct Span {
  T *data_;
  std::size_t size_;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T *data() const { return data_; }
  T *begin() const { return data_; }
  T *end() const { return data_ + size_; }
  T &operator[](std::size_t index) const { return data_[index]; }
  T &front() const { return data_[0]; }
  T &back() const { return data_[size_ - 1]; }
};

}  // namespace codelets

/// State: elements that stay with the vertex.
template <typename T, VectorLayout L = VectorLayout::SPAN, unsigned MinAlign = alignof(T),
          bool Interleaved = false>
struct Vector : codelets::Span<T> {
  using value_type = T;
};

template <typename T, VectorListLayout L = VectorListLayout::ONE_PTR,
          unsigned MinAlign = alignof(T), bool Interleaved = false>
struct VectorList {};

namespace codelets {

// `E` is the element as the field sees it: const where it is only read.
template <typename E>
struct Scalar {
  E *data_;
  E &operator*() const { return *data_; }
  operator E &() const { return *data_; }
  E *operator&() const { return data_; }
};

template <typename E>
struct WritableScalar : Scalar<E> {
  WritableScalar &operator=(const E &value) {
    *this->data_ = value;
    return *this;
  }
  WritableScalar &operator=(const WritableScalar &other) {
    *this->data_ = *other.data_;
    return *this;
  }
  template <typename T>
  WritableScalar &operator+=(const T &value) {
    *this->data_ += value;
    return *this;
  }
  template <typename T>
  WritableScalar &operator-=(const T &value) {
    *this->data_ -= value;
    return *this;
  }
  template <typename T>
  WritableScalar &operator*=(const T &value) {
    *this->data_ *= value;
    return *this;
  }
};

template <typename E>
struct Region : Span<E> {
  const Region *operator->() const { return this; }
  const Region &operator*() const { return *this; }
};

template <typename E>
struct Regions : Span<const Region<E>> {
  const Regions *operator->() const { return this; }
  const Regions &operator*() const { return *this; }
};

}  // namespace codelets

template <typename T>
struct Input : codelets::Scalar<const T> {};
template <typename T, VectorLayout L, unsigned A, bool I>
struct Input<Vector<T, L, A, I>> : codelets::Region<const T> {};
template <typename T, VectorListLayout L, unsigned A, bool I>
struct Input<VectorList<T, L, A, I>> : codelets::Regions<const T> {};

template <typename T>
struct Output : codelets::WritableScalar<T> {
  using codelets::WritableScalar<T>::operator=;
};
template <typename T, VectorLayout L, unsigned A, bool I>
struct Output<Vector<T, L, A, I>> : codelets::Region<T> {};
template <typename T, VectorListLayout L, unsigned A, bool I>
struct Output<VectorList<T, L, A, I>> : codelets::Regions<T> {};

template <typename T>
struct InOut : codelets::WritableScalar<T> {
  using codelets::WritableScalar<T>::operator=;
};
template <typename T, VectorLayout L, unsigned A, bool I>
struct InOut<Vector<T, L, A, I>> : codelets::Region<T> {};
template <typename T, VectorListLayout L, unsigned A, bool I>
struct InOut<VectorList<T, L, A, I>> : codelets::Regions<T> {};

// A list of edges, or of regions.
#define POPLAR_FIELD_LIST(EDGE)                                     \
  template <typename T, VectorLayout L, unsigned A, bool I>         \
  struct Vector<EDGE<T>, L, A, I> : codelets::Span<const EDGE<T>> { \
    const Vector *operator->() const { return this; }               \
    const Vector &operator*() const { return *this; }               \
  };
POPLAR_FIELD_LIST(Input)
POPLAR_FIELD_LIST(Output)
POPLAR_FIELD_LIST(InOut)
#undef POPLAR_FIELD_LIST

}  // namespace poplar

#endif  // poplar_FieldTypes_hpp
