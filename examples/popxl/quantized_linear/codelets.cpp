// A row of a weight: codes of 8 bits times the scales of their columns.
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>

template <typename T>
class Dequantize : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<signed char>> codes;
  poplar::Input<poplar::Vector<T>> scales;
  poplar::Output<poplar::Vector<T>> weights;

  bool compute() {
    for (unsigned i = 0; i < codes.size(); ++i) {
      weights[i] = T(static_cast<float>(codes[i]) * static_cast<float>(scales[i]));
    }
    return true;
  }
};

template class Dequantize<float>;
template class Dequantize<half>;
