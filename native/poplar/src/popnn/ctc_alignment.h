// The sum over alignments of connectionist temporal classification, of one sequence.
#ifndef TENSORFLOW_IPU_POPNN_CTC_ALIGNMENT_H_
#define TENSORFLOW_IPU_POPNN_CTC_ALIGNMENT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tensorflow_ipu {

// The logarithm of no probability.
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)).
inline double LogAdd(double a, double b) {
  const double high = std::max(a, b);
  if (high == kImpossible) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

// One sequence's log probabilities: element (t, c) is `first[t * stride + c]`.
struct LogProbs {
  const float* first;
  int64_t stride;
  int64_t steps;
  int64_t classes;

  double operator()(int64_t t, int64_t c) const { return first[t * stride + c]; }
};

// Forward and backward variables of Graves et al., "Connectionist Temporal Classification" (2006),
// in logarithms. The path visits the labels with a blank before, between and after them.
class CtcAlignment {
 public:
  CtcAlignment(const int32_t* labels, int64_t count, int blank) : symbols_(2 * count + 1, blank) {
    for (int64_t i = 0; i < count; ++i) symbols_[2 * i + 1] = labels[i];
  }

  // Returns the negative log probability of the labels. Adds to `gradient`, laid out as `probs`,
  // the derivatives by the logits that a softmax made the probabilities of: none when the labels
  // are impossible.
  double Loss(const LogProbs& probs, float* gradient) const {
    const int64_t size = symbols_.size();
    if (probs.steps == 0) return size == 1 ? 0.0 : -kImpossible;
    const std::vector<double> forward = Forward(probs);
    const double* end = &forward[(probs.steps - 1) * size];
    const double total = size == 1 ? end[0] : LogAdd(end[size - 1], end[size - 2]);
    if (total > kImpossible) Backward(probs, forward, total, gradient);
    return -total;
  }

 private:
  // Whether a path may go from position `s` to `s + 2`: past a blank between different labels.
  bool Skips(int64_t s) const {
    return s % 2 == 1 && s + 2 < static_cast<int64_t>(symbols_.size()) &&
           symbols_[s] != symbols_[s + 2];
  }

  // Element [t * size + s]: paths of t + 1 steps that are at position s.
  std::vector<double> Forward(const LogProbs& probs) const {
    const int64_t size = symbols_.size();
    std::vector<double> all(probs.steps * size, kImpossible);
    for (int64_t s = 0; s < std::min<int64_t>(size, 2); ++s) all[s] = probs(0, symbols_[s]);
    for (int64_t t = 1; t < probs.steps; ++t) {
      const double* before = &all[(t - 1) * size];
      for (int64_t s = 0; s < size; ++s) {
        double sum = before[s];
        if (s >= 1) sum = LogAdd(sum, before[s - 1]);
        if (s >= 2 && Skips(s - 2)) sum = LogAdd(sum, before[s - 2]);
        all[t * size + s] = sum + probs(t, symbols_[s]);
      }
    }
    return all;
  }

  void Backward(const LogProbs& probs, const std::vector<double>& forward, double total,
                float* gradient) const {
    const int64_t size = symbols_.size();
    // Of the paths from position s at step t on, without what step t itself gives.
    std::vector<double> now(size, kImpossible), after(size);
    for (int64_t s = std::max<int64_t>(size - 2, 0); s < size; ++s) now[s] = 0;
    for (int64_t t = probs.steps - 1;; --t) {
      for (int64_t c = 0; c < probs.classes; ++c) {
        gradient[t * probs.stride + c] += std::exp(probs.first[t * probs.stride + c]);
      }
      for (int64_t s = 0; s < size; ++s) {
        gradient[t * probs.stride + symbols_[s]] -=
            std::exp(forward[t * size + s] + now[s] - total);
      }
      if (t == 0) return;
      for (int64_t s = 0; s < size; ++s) after[s] = now[s] + probs(t, symbols_[s]);
      for (int64_t s = 0; s < size; ++s) {
        now[s] = after[s];
        if (s + 1 < size) now[s] = LogAdd(now[s], after[s + 1]);
        if (Skips(s)) now[s] = LogAdd(now[s], after[s + 2]);
      }
    }
  }

  std::vector<int32_t> symbols_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_POPNN_CTC_ALIGNMENT_H_
