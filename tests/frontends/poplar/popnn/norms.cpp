// Cases of normalizations; see test_norms.py.
#include "../cases.h"

#include <poplin/Norms.hpp>
#include <popnn/BatchNorm.hpp>
#include <popnn/GroupNorm.hpp>
#include <popnn/InstanceNorm.hpp>
#include <popnn/LayerNorm.hpp>
#include <popnn/Norms.hpp>

using namespace poplar;
using namespace poplar::program;

namespace {

using Pair = std::pair<Tensor, Tensor>;

// A normalization with its gradients, from activations and from whitened ones.
#define NORM(NAMESPACE, NAME, NORMALISE, ...)                                                  \
  {                                                                                            \
    using namespace popnn::NAMESPACE;                                                          \
    const Pair found = NAME##Statistics(c.graph, x, eps, c.prog, __VA_ARGS__ unbiased, false,  \
                                        FLOAT, "statistics", options);                         \
    const Tensor mean = found.first, inverse = found.second;                                   \
    c.out("mean", mean);                                                                       \
    c.out("inverse", inverse);                                                                 \
    const Tensor whitened = NAME##Whiten(c.graph, x, mean, inverse, c.prog, {}, options);      \
    const Pair y = NORMALISE(c.graph, x, gamma, beta, mean, inverse, c.prog, {}, options);     \
    c.out("whitened", whitened);                                                               \
    c.out("again", y.second);                                                                  \
    c.out("y", y.first);                                                                       \
    const Pair params =                                                                        \
        NAME##ParamGradients(c.graph, x, dy, mean, inverse, c.prog, FLOAT, {}, options);       \
    const Pair short_params =                                                                  \
        NAME##ParamGradients(c.graph, whitened, dy, c.prog, FLOAT, {}, options);               \
    c.out("dgamma", params.first);                                                             \
    c.out("dbeta", params.second);                                                             \
    c.out("dgamma_short", short_params.first);                                                 \
    c.out("dx",                                                                                \
          NAME##Gradients(c.graph, x, dy, mean, inverse, gamma, c.prog, FLOAT, {}, options));  \
    c.out("dx_short",                                                                          \
          NAME##Gradients(c.graph, whitened, dy, inverse, gamma, c.prog, FLOAT, {}, options)); \
    NAME##ParamUpdate(c.graph, params.first, params.second, -0.5f, gamma, beta, c.prog);       \
    NAME##ParamUpdate(c.graph, params.first, params.second, scale, gamma, beta, c.prog);       \
    c.out("gamma", gamma);                                                                     \
    c.out("beta", beta);                                                                       \
  }

void norm(Case &c) {
  const Tensor x = c.in("x"), dy = c.in("dy"), scale = c.in("scale");
  Tensor gamma, beta;
  std::tie(gamma, beta) = popnn::createNormParams(c.graph, x);
  c.set("gamma", gamma);
  c.set("beta", beta);
  const float eps = 1e-3f;
  const bool unbiased = c.flag("unbiased");
  OptionFlags options;
  if (c.has("strided")) options.set("groupNormStridedChannelGrouping", c.word("strided"));
  const unsigned groups = c.has("groups") ? static_cast<unsigned>(c.number("groups")) : 0;
  const std::string kind = c.word("kind");
  if (kind == "bn") NORM(bn, batchNorm, batchNormalise, );
  if (kind == "gn") NORM(gn, groupNorm, groupNormalise, groups, );
  if (kind == "in") NORM(in, instanceNorm, instanceNormalise, );
  if (kind == "ln") NORM(ln, layerNorm, layerNormalise, );
}

// The parts in poplin, and batch norm over "replicas" whose sums a callback doubles.
void parts(Case &c) {
  const Tensor x = c.in("x"), dy = c.in("dy");
  const Tensor gamma = poplin::createNormGamma(c.graph, x),
               beta = poplin::createNormBeta(c.graph, x);
  c.set("gamma", gamma);
  c.set("beta", beta);
  const Pair found = poplin::normStatistics(c.graph, x, 1e-3f, c.prog, false, true);
  const Tensor whitened = poplin::normWhiten(c.graph, x, found.first, found.second, c.prog);
  c.out("y", poplin::normalise(c.graph, whitened, gamma, beta, c.prog));
  c.out("dgamma", poplin::normParamGradients(c.graph, whitened, dy, c.prog).first);
  const Tensor gradients = poplin::normGradients(c.graph, dy, gamma, c.prog);
  c.out("dx", poplin::normStatisticsGradients(c.graph, whitened, gradients, found.second, c.prog));
  unsigned members = 0;
  const poplin::DistributedNormReduceCallback twice =
      [&](Graph &graph, const std::vector<Tensor> &inputs, Sequence &prog, unsigned groupSize,
          const DebugContext &, const OptionFlags &) {
        members = groupSize;
        std::vector<Tensor> sums;
        for (const Tensor &input : inputs) {
          const Tensor one = graph.addConstant<float>(FLOAT, {input.dim(1)}, 1.0f);
          const Tensor zero = graph.addConstant<float>(FLOAT, {input.dim(1)}, 0.0f);
          const Tensor two = graph.addConstant<float>(FLOAT, {input.dim(1)}, 2.0f);
          for (const Tensor &t : {one, zero, two}) graph.setTileMapping(t, 0);
          sums.push_back(poplin::normalise(graph, input, two, zero, prog));
        }
        return sums;
      };
  const unsigned size = 2 * static_cast<unsigned>(x.dim(0));
  const Pair both =
      popnn::bn::distributedBatchNormStatistics(c.graph, x, 1e-3f, c.prog, false, twice, size);
  c.out("mean", both.first);
  c.out("mean_alone", found.first);
  c.out("inverse", both.second);
  c.out("inverse_alone", found.second);
  c.out("dx_both", popnn::bn::distributedBatchNormGradients(c.graph, whitened, dy, found.second,
                                                            gamma, c.prog, twice, size));
  c.out("dx_again", popnn::bn::distributedBatchNormGradients(
                        c.graph, x, dy, found.first, found.second, gamma, c.prog, twice, size));
  c.out("combined", popnn::bn::batchNormalise(c.graph, x, gamma, beta, c.prog));
  c.note("members", members);
  c.note("flops",
         static_cast<double>(popnn::getNormFwdFlops(3, 100) + popnn::getNormBwdFlops(3, 100) +
                             popnn::getNormWuFlops(3, 100)));
  c.note("instance_flops",
         static_cast<double>(popnn::in::getFwdFlops(4, 25, true) + popnn::in::getBwdFlops(4, 25) +
                             popnn::in::getWuFlops(4, 25)));
}

const Cases cases = {{"norm", norm}, {"parts", parts}};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
