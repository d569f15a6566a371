// Vertices of the operations in poplar_ops.cpp.
#include <poplar/Vertex.hpp>

using namespace poplar;

class Product : public Vertex {
 public:
  Input<Vector<float>> a, b;
  Output<Vector<float>> out;
  float factor;

  bool compute() {
    for (unsigned i = 0; i < a.size(); ++i) out[i] = factor * a[i] * b[i];
    return true;
  }
};

class Increment : public Vertex {
 public:
  InOut<Vector<float>> data;

  void compute() {
    for (unsigned i = 0; i < data.size(); ++i) data[i] += 1;
  }
};

class Failing : public Vertex {
 public:
  Input<float> in;
  Output<float> out;

  bool compute() {
    if (*in > 0) throw 42;
    *out = *in;
    return true;
  }
};
