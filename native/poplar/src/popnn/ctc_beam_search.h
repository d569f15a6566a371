// The beam search over label sequences of connectionist temporal classification.
#ifndef TENSORFLOW_IPU_POPNN_CTC_BEAM_SEARCH_H_
#define TENSORFLOW_IPU_POPNN_CTC_BEAM_SEARCH_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ctc_alignment.h"

namespace tensorflow_ipu {

// Finds likely label sequences (Graves, "Supervised Sequence Labelling with Recurrent Neural
// Networks", 2012, section 7.5): those that are kept after each step share a tree of prefixes.
class CtcBeamSearch {
 public:
  // A label sequence and the log probability of all its alignments so far.
  struct Beam {
    int node;      // where it ends in the tree
    double blank;  // of alignments that end in a blank
    double label;  // of those that end in its last label
    double total() const { return LogAdd(blank, label); }
  };

  CtcBeamSearch(int classes, int width, int blank)
      : classes_(classes), width_(width), blank_(blank) {
    AddNode(-1, -1);
    beams_.push_back({0, 0.0, kImpossible});
  }

  void Run(const LogProbs& probs) {
    for (int64_t t = 0; t < probs.steps; ++t) Step(probs.first + t * probs.stride);
    std::stable_sort(beams_.begin(), beams_.end(),
                     [](const Beam& a, const Beam& b) { return a.total() > b.total(); });
  }

  // What is kept, the most likely first.
  const std::vector<Beam>& beams() const { return beams_; }

  std::vector<int> Labels(const Beam& beam) const {
    std::vector<int> labels;
    for (int node = beam.node; nodes_[node].parent >= 0; node = nodes_[node].parent) {
      labels.push_back(nodes_[node].label);
    }
    std::reverse(labels.begin(), labels.end());
    return labels;
  }

 private:
  struct Node {
    int parent;
    int label;
    int beam = -1;  // which of the beams ends here, if any
    bool has_children = false;
  };
  // A sequence that may be kept: a beam as it is, or with a label added (`added` >= 0).
  struct Candidate {
    int from;
    int added;
    double blank;
    double label;
    double total;
  };

  int AddNode(int parent, int label) {
    nodes_.push_back({parent, label});
    return static_cast<int>(nodes_.size()) - 1;
  }

  static uint64_t Key(int node, int label) {
    return (static_cast<uint64_t>(node) << 32) | static_cast<uint32_t>(label);
  }

  // The node below `node` for a label, or -1.
  int FindChild(int node, int label) const {
    if (!nodes_[node].has_children) return -1;
    const auto found = children_.find(Key(node, label));
    return found == children_.end() ? -1 : found->second;
  }

  int Child(int node, int label) {
    int child = FindChild(node, label);
    if (child >= 0) return child;
    child = AddNode(node, label);
    nodes_[node].has_children = true;
    children_[Key(node, label)] = child;
    return child;
  }

  void Step(const float* row) {
    candidates_.clear();
    for (size_t i = 0; i < beams_.size(); ++i) Stay(static_cast<int>(i), row);
    for (size_t i = 0; i < beams_.size(); ++i) Extend(static_cast<int>(i), row);
    for (size_t i = 0; i < beams_.size(); ++i) {
      candidates_[i].total = LogAdd(candidates_[i].blank, candidates_[i].label);
    }
    Keep();
  }

  void Stay(int i, const float* row) {
    const Beam& beam = beams_[i];
    const int last = nodes_[beam.node].label;
    nodes_[beam.node].beam = i;
    const double repeated = last < 0 ? kImpossible : beam.label + row[last];
    candidates_.push_back({i, -1, beam.total() + row[blank_], repeated, kImpossible});
  }

  void Extend(int i, const float* row) {
    const Beam& beam = beams_[i];
    const int last = nodes_[beam.node].label;
    const double total = beam.total();
    for (int c = 0; c < classes_; ++c) {
      if (c == blank_) continue;
      // The same label again is another one only after a blank.
      const double score = (c == last ? beam.blank : total) + row[c];
      if (score == kImpossible) continue;
      const int child = FindChild(beam.node, c);
      if (child >= 0 && nodes_[child].beam >= 0) {
        Candidate& same = candidates_[nodes_[child].beam];
        same.label = LogAdd(same.label, score);
      } else {
        candidates_.push_back({i, c, kImpossible, score, score});
      }
    }
  }

  // Makes beams of the most likely candidates; among equal ones, of those that came first.
  void Keep() {
    std::vector<int> order(candidates_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    const size_t kept = std::min<size_t>(width_, order.size());
    const auto before = [this](int a, int b) {
      const double left = candidates_[a].total, right = candidates_[b].total;
      return left != right ? left > right : a < b;
    };
    if (kept < order.size()) {
      std::nth_element(order.begin(), order.begin() + kept, order.end(), before);
      order.resize(kept);
      std::sort(order.begin(), order.end());
    }
    for (const Beam& beam : beams_) nodes_[beam.node].beam = -1;
    std::vector<Beam> beams;
    beams.reserve(kept);
    for (int index : order) {
      const Candidate& from = candidates_[index];
      const int node = beams_[from.from].node;
      beams.push_back({from.added < 0 ? node : Child(node, from.added), from.blank, from.label});
    }
    beams_.swap(beams);
  }

  const int classes_;
  const int width_;
  const int blank_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int> children_;
  std::vector<Beam> beams_;
  std::vector<Candidate> candidates_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_POPNN_CTC_BEAM_SEARCH_H_
