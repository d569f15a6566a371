// Vertices with each form of field.
#include <poplar/Vertex.hpp>
#include <stdexcept>

#include <algorithm>

using namespace poplar;

namespace forms {

// Private fields, a list of edges, and state that stays.
class Edges : public Vertex {
  Vector<Input<float>> in;
  Vector<Output<float>> out;
  const float factor;
  unsigned runs;

 public:
  Edges();
  bool compute() {
    ++runs;
    for (unsigned i = 0; i < in.size(); ++i) *out[i] = *in[i] * factor + runs;
    return true;
  }
};

class Regions : public Vertex {
 public:
  Vector<Input<Vector<int, VectorLayout::ONE_PTR>>> in;
  Output<Vector<int>> sums;
  Vector<unsigned> sizes;
  void compute() {
    for (unsigned r = 0; r < in.size(); ++r) {
      sums[r] = 0;
      for (unsigned i = 0; i < sizes[r]; ++i) sums[r] += in[r][i];
    }
  }
};

class List : public Vertex {
 public:
  InOut<VectorList<float, VectorListLayout::DELTAN>> rows;
  bool compute() {
    for (unsigned r = 0; r < rows.size(); ++r) std::reverse(rows[r].begin(), rows[r].end());
    return true;
  }
};

template <typename T, bool Negative>
class Scale : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR, 8>> in;
  Output<Vector<T, VectorLayout::SPAN, 8>> out;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) {
      out[i] = Negative ? -(in[i] * T(3)) : in[i] * T(3);
    }
    return true;
  }
};
template class Scale<float, true>;
template class Scale<half, false>;

class __attribute__((aligned(8))) Supervised : public SupervisorVertex {
 public:
  InOut<unsigned> value;
  __attribute__((target("supervisor"))) bool compute() {
    value = value + 1;
    return value < 5;
  }
};

}  // namespace forms

class Increment : public Vertex {
 public:
  Input<Vector<float>> in;
  Output<Vector<float>> out;
  void compute() {
    for (unsigned i = 0; i < in.size(); ++i) out[i] = in[i] + 1;
  }
};

// Does as it is told: throws, writes outside, divides.
class Faulty : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float>> in;
  poplar::Output<poplar::Vector<float>> out;
  unsigned fault;

  bool compute() {
    for (unsigned i = 0; i < in.size(); ++i) out[i] = in[i];
    if (fault == 1 && in[0] > 0) throw std::runtime_error("fault");
    if (fault == 2) out.data()[out.size() + 1] = 1;
    if (fault == 3) out[0] = 1 / in[0];
    if (fault == 4) out[0] = in[0] * 3e38f;
    return true;
  }
};
