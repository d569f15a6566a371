// Cases of poprand; see test_random.py.
#include "../cases.h"

#include <poprand/RandomGen.hpp>
#include <poprand/codelets.hpp>

using namespace poplar;
using namespace poplar::program;

namespace {

Tensor draw(Case &c, const std::string &name, const Tensor *seed, unsigned modifier) {
  const Tensor like = c.graph.addVariable(FLOAT, c.list("shape"), "like");
  poputil::mapTensorLinearly(c.graph, like);
  const Type type = c.type("type");
  const std::string kind = c.word("kind");
  const double a = c.has("a") ? c.number("a") : 0, b = c.has("b") ? c.number("b") : 1;
  if (kind == "uniform") {
    return poprand::uniform(c.graph, seed, modifier, like, type, a, b, c.prog, name);
  }
  if (kind == "normal") {
    return poprand::normal(c.graph, seed, modifier, like, type, a, b, c.prog, name);
  }
  if (kind == "truncatedNormal") {
    return poprand::truncatedNormal(c.graph, seed, modifier, like, type, a, b, c.number("alpha"),
                                    c.prog, name);
  }
  if (kind == "bernoulli") {
    return poprand::bernoulli(c.graph, seed, modifier, like, type, a, c.prog, name);
  }
  return c.has("base") ? poprand::logUniform(c.graph, seed, modifier, like, type, a, b, c.prog,
                                             c.number("base"))
                       : poprand::logUniform(c.graph, seed, modifier, like, type, a, b, c.prog);
}

// With a seed: a call, the same again, and one with another modifier.
void seeded(Case &c) {
  poprand::addCodelets(c.graph);
  const Tensor seed = c.in("seed");
  c.out("first", draw(c, "first", &seed, 7));
  c.out("again", draw(c, "again", &seed, 7));
  c.out("other", draw(c, "other", &seed, 8));
}

// Without one: the generator goes on, and starts again with setSeed.
void unseeded(Case &c) {
  const Tensor seed = c.in("seed");
  poprand::setSeed(c.graph, seed, 3, c.prog);
  c.out("first", draw(c, "first", nullptr, 7));
  c.out("second", draw(c, "second", nullptr, 7));
  poprand::setSeed(c.graph, seed, 3, c.prog);
  c.out("again", draw(c, "again", nullptr, 7));
  poprand::setSeed(c.graph, seed, 4, c.prog);
  c.out("other", draw(c, "other", nullptr, 7));
}

// Without setSeed: each run of the program goes on.
void continued(Case &c) { c.out("out", draw(c, "out", nullptr, 0)); }

void dropout(Case &c) {
  const Tensor seed = c.in("seed"), x = c.in("x"), shape = c.in("shape");
  const double keep = c.number("keep");
  c.out("out", poprand::dropout(c.graph, &seed, 1, x, x, keep, 1 / keep, c.prog));
  c.out("again", poprand::dropout(c.graph, &seed, 1, x, x, keep, 1 / keep, false, c.prog));
  c.out("shaped", poprand::shapedDropout(c.graph, &seed, 1, x, shape, keep, 1 / keep, c.prog));
}

const Cases cases = {
    {"seeded", seeded}, {"unseeded", unseeded}, {"continued", continued}, {"dropout", dropout}};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
