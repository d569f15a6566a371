// Normalization over channels, or over groups of channels of each image.
#ifndef TENSORFLOW_IPU_POPLIN_NORMALIZATION_H_
#define TENSORFLOW_IPU_POPLIN_NORMALIZATION_H_

#include <cstddef>
#include <utility>

#include "poplin/Norms.hpp"
#include "poputil/call_site.h"

namespace poplin {

// Which elements share statistics: those of a channel, or of each image those of a group of
// channels. The statistics of group g of image n are number n * groups + g.
struct NormGroups {
  size_t groups = 0;    // 0: by channel
  bool strided = true;  // channel c is in group c % groups, else channels of a group are neighbours
};

struct Statistics {
  poplar::Tensor mean, inverse_deviation;
};

// The parts of a normalization for one choice of groups.
class Normalization {
 public:
  Normalization(const poputil::CallSite& site, poplar::program::Sequence& prog,
                const NormGroups& groups)
      : site_(site), prog_(prog), groups_(groups) {}

  Statistics StatisticsOf(const poplar::Tensor& acts, float eps, bool unbiased) const;
  // Sums of `normSize` images by a callback.
  Statistics DistributedStatistics(const poplar::Tensor& acts, float eps, bool unbiased,
                                   const DistributedNormReduceCallback& reduce,
                                   unsigned norm_size) const;
  poplar::Tensor Whiten(const poplar::Tensor& acts, const Statistics& statistics) const;
  // x * scale + offset by channel; without offset if it is not valid.
  poplar::Tensor Scale(const poplar::Tensor& x, const poplar::Tensor& scale,
                       const poplar::Tensor& offset) const;
  std::pair<poplar::Tensor, poplar::Tensor> ParamGradients(const poplar::Tensor& whitened,
                                                           const poplar::Tensor& gradients) const;
  // Without a callback, sums are those of the activations.
  poplar::Tensor Gradients(const poplar::Tensor& whitened, const poplar::Tensor& gradients,
                           const poplar::Tensor& inverse_deviation,
                           const DistributedNormReduceCallback& reduce = nullptr,
                           unsigned norm_size = 0) const;

 private:
  poplar::Tensor Checked(const char* name, const poplar::Tensor& acts) const;
  poputil::Attributes GroupAttributes() const;
  size_t NumStatistics(const poplar::Tensor& acts) const;
  size_t ElementsOf(const poplar::Tensor& acts) const;
  poplar::Tensor Reduced(const poplar::Tensor& sums, const poplar::Tensor& acts,
                         const DistributedNormReduceCallback& reduce, unsigned norm_size) const;

  const poputil::CallSite& site_;
  poplar::program::Sequence& prog_;
  const NormGroups groups_;
};

// target += scale * delta; the scale is a number, or a tensor if it is valid.
void AddScaled(const poputil::CallSite& site, const poplar::Tensor& target,
               const poplar::Tensor& delta, float factor, const poplar::Tensor& scale,
               poplar::program::Sequence& prog);

}  // namespace poplin

#endif  // TENSORFLOW_IPU_POPLIN_NORMALIZATION_H_
