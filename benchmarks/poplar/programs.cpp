// Poplar programs and the same loops as plain C++ on two threads. Prints the seconds of each.
#ifdef __POPC__

#include <poplar/Vertex.hpp>

using namespace poplar;

class Triad : public Vertex {
 public:
  Input<Vector<float, VectorLayout::ONE_PTR, 8>> b, c;
  Output<Vector<float, VectorLayout::SPAN, 8>> a;
  float scale;

  bool compute() {
    float *__restrict to = &a[0];
    const float *x = &b[0], *y = &c[0];
    // Locals: the compiler cannot know that `to` is no field.
    const size_t count = a.size();
    const float k = scale;
    for (size_t i = 0; i < count; ++i) to[i] = x[i] + k * y[i];
    return true;
  }
};

// Planes of a grid with the planes below and above: seven points.
class Stencil : public Vertex {
 public:
  Input<Vector<float>> in;  // two planes more than `out`
  Output<Vector<float>> out;
  unsigned size;

  bool compute() {
    const int n = static_cast<int>(size), plane = n * n;
    for (int z = 0; z < static_cast<int>(out.size()) / plane; ++z) {
      for (int y = 1; y + 1 < n; ++y) {
        const float *p = &in[(z + 1) * plane + y * n];
        float *__restrict q = &out[z * plane + y * n];
        for (int x = 1; x + 1 < n; ++x) {
          q[x] = 0.4f * p[x] +
                 0.1f * (p[x - 1] + p[x + 1] + p[x - n] + p[x + n] + p[x - plane] + p[x + plane]);
        }
      }
    }
    return true;
  }
};

class Increment : public Vertex {
 public:
  Input<Vector<float>> in;
  Output<Vector<float>> out;
  float step;

  bool compute() {
    for (unsigned i = 0; i < in.size(); ++i) out[i] = in[i] + step;
    return true;
  }
};

#else

#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

constexpr unsigned kRepetitions = 10;

double seconds(const std::function<void()> &work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of some runs.
double best(const std::function<void()> &work) {
  double least = seconds(work);
  for (unsigned i = 0; i < 4; ++i) least = std::min(least, seconds(work));
  return least / kRepetitions;
}

void onTwoThreads(size_t count, const std::function<void(size_t, size_t)> &work) {
  for (unsigned r = 0; r < kRepetitions; ++r) {
    std::thread other([&] { work(0, count / 2); });
    work(count / 2, count);
    other.join();
  }
}

Engine load(const Graph &graph, const Program &program, const Device &device) {
  Engine engine(graph, program);
  engine.load(device);
  return engine;
}

void triad(const Device &device) {
  constexpr size_t kCount = size_t{1} << 24;
  Graph graph(device);
  graph.addCodelets(__FILE__);
  Tensor t[3];
  for (Tensor &tensor : t) {
    tensor = graph.addVariable(FLOAT, {kCount}, VariableMappingMethod::LINEAR);
    graph.setInitialValue(tensor, 1.0f);
  }
  ComputeSet cs = graph.addComputeSet("triad");
  const auto mapping = graph.getTileMapping(t[0]);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval &interval : mapping[tile]) {
      VertexRef v = graph.addVertex(cs, "Triad", {{"a", t[0].slice(interval)},
                                                  {"b", t[1].slice(interval)},
                                                  {"c", t[2].slice(interval)}});
      graph.setInitialValue(v["scale"], 0.4f);
      graph.setTileMapping(v, tile);
    }
  }
  Engine engine = load(graph, Repeat(kRepetitions, Execute(cs)), device);
  std::vector<float> a(kCount, 1), b(kCount, 1), c(kCount, 1);
  const double plain = best([&] {
    onTwoThreads(kCount, [&](size_t begin, size_t end) {
      float *__restrict to = a.data();
      const float *x = b.data(), *y = c.data();
      for (size_t i = begin; i < end; ++i) to[i] = x[i] + 0.4f * y[i];
    });
  });
  std::printf("triad %g %g\n", best([&] { engine.run(); }), plain);
}

void stencil(const Device &device) {
  constexpr size_t kSize = 256, kPlane = kSize * kSize, kInner = kSize - 2;
  Graph graph(device);
  graph.addCodelets(__FILE__);
  Tensor in = graph.addVariable(FLOAT, {kSize, kPlane}, VariableMappingMethod::LINEAR);
  Tensor out = graph.addVariable(FLOAT, {kSize, kPlane}, VariableMappingMethod::LINEAR);
  graph.setInitialValue(in, 1.0f);
  ComputeSet cs = graph.addComputeSet("stencil");
  for (size_t z = 0; z < kInner; ++z) {
    VertexRef v = graph.addVertex(cs, "Stencil", {{"in", in.slice(z, z + 3).flatten()},
                                                  {"out", out.slice(z + 1, z + 2).flatten()}});
    graph.setInitialValue(v["size"], static_cast<unsigned>(kSize));
    graph.setTileMapping(v, static_cast<unsigned>(z));
  }
  Engine engine = load(graph, Repeat(kRepetitions, Execute(cs)), device);
  std::vector<float> a(kSize * kPlane, 1), b(kSize * kPlane, 1);
  const double plain = best([&] {
    onTwoThreads(kInner, [&](size_t begin, size_t end) {
      for (size_t z = begin + 1; z < end + 1; ++z) {
        for (size_t y = 1; y + 1 < kSize; ++y) {
          const float *p = &a[z * kPlane + y * kSize];
          float *__restrict q = &b[z * kPlane + y * kSize];
          for (size_t x = 1; x + 1 < kSize; ++x) {
            q[x] = 0.4f * p[x] + 0.1f * (p[x - 1] + p[x + 1] + p[x - kSize] + p[x + kSize] +
                                         p[x - kPlane] + p[x + kPlane]);
          }
        }
      }
    });
  });
  std::printf("stencil %g %g\n", best([&] { engine.run(); }), plain);
}

// Building a million vertices, and running them once.
void vertices(const Device &device) {
  constexpr size_t kCount = 1000000, kElements = 4;
  Graph graph(device);
  graph.addCodelets(__FILE__);
  std::vector<Engine> engines;
  const double build = seconds([&] {
    Tensor a = graph.addVariable(FLOAT, {kCount * kElements}, VariableMappingMethod::LINEAR);
    Tensor b = graph.addVariable(FLOAT, {kCount * kElements}, VariableMappingMethod::LINEAR);
    ComputeSet cs = graph.addComputeSet("vertices");
    const size_t tiles = graph.getTarget().getNumTiles();
    for (size_t i = 0; i < kCount; ++i) {
      const Interval elements(i * kElements, (i + 1) * kElements);
      VertexRef v =
          graph.addVertex(cs, "Increment", {{"in", a.slice(elements)}, {"out", b.slice(elements)}});
      graph.setInitialValue(v["step"], 1.0f);
      graph.setTileMapping(v, static_cast<unsigned>(i * tiles / kCount));
    }
    engines.push_back(load(graph, Execute(cs), device));
  });
  std::printf("vertices %g %g\n", build, kRepetitions * best([&] { engines[0].run(); }));
}

}  // namespace

int main() {
  const Device device = IPUModel().createDevice();
  triad(device);
  stencil(device);
  vertices(device);
}

#endif
