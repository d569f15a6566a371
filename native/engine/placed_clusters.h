// Clusters that are made of what a graph places on an IPU, not by Python. They wait here for the
// Python compiler, which makes its own objects of them when they are compiled.
#ifndef TENSORFLOW_IPU_ENGINE_PLACED_CLUSTERS_H_
#define TENSORFLOW_IPU_ENGINE_PLACED_CLUSTERS_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/function.pb.h"

namespace tensorflow_ipu {

// What belongs to a Cluster lives as long as kernels that launch it.
class PlacedClusters {
 public:
  // Adds a Cluster. Returns its name, which begins with `kPrefix` and ends with `label`.
  static std::string Add(tensorflow::FunctionDefLibrary library, const std::string& label);

  // Whether a Cluster of that name was made here.
  static bool IsPlaced(const std::string& cluster);

  // A kernel that launches the Cluster was made, or is gone.
  static void Hold(const std::string& cluster);
  static void Release(const std::string& cluster);

  // The functions of a Cluster: the first is its entry. Empty when it is gone.
  static tensorflow::FunctionDefLibrary Library(const std::string& cluster);

  // The Clusters that went since the last call.
  static std::vector<std::string> TakeGone();
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_PLACED_CLUSTERS_H_
