// Vertices of the operation in leaky_relu.cpp.
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>

using namespace poplar;

template <typename T>
class LeakyRelu : public Vertex {
 public:
  Input<Vector<T>> x;
  Output<Vector<T>> y;
  float alpha;

  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) {
      const float value = x[i];
      y[i] = value > 0 ? value : alpha * value;
    }
    return true;
  }
};

template <typename T>
class LeakyReluGrad : public Vertex {
 public:
  Input<Vector<T>> dy;
  Input<Vector<T>> x;
  Output<Vector<T>> dx;
  float alpha;

  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) {
      const float gradient = dy[i];
      dx[i] = float(x[i]) > 0 ? gradient : alpha * gradient;
    }
    return true;
  }
};

template class LeakyRelu<float>;
template class LeakyRelu<half>;
template class LeakyReluGrad<float>;
template class LeakyReluGrad<half>;
