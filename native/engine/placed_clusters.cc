#include "engine/placed_clusters.h"

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {
namespace {

// Also in compiler/cluster.py.
constexpr char kPrefix[] = "cluster_placed_";

struct Entry {
  tensorflow::FunctionDefLibrary library;
  int kernels = 0;
};

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::unordered_map<std::string, Entry>& Entries() {
  static auto* entries = new std::unordered_map<std::string, Entry>;
  return *entries;
}

std::vector<std::string>& Gone() {
  static auto* gone = new std::vector<std::string>;
  return *gone;
}

}  // namespace

std::string PlacedClusters::Add(tensorflow::FunctionDefLibrary library, const std::string& label) {
  std::lock_guard<std::mutex> lock(Mutex());
  static int64_t made = 0;
  const std::string name = tensorflow::strings::StrCat(kPrefix, made++, "__", label);
  Entries()[name].library = std::move(library);
  return name;
}

bool PlacedClusters::IsPlaced(const std::string& cluster) { return cluster.rfind(kPrefix, 0) == 0; }

void PlacedClusters::Hold(const std::string& cluster) {
  std::lock_guard<std::mutex> lock(Mutex());
  const auto entry = Entries().find(cluster);
  if (entry != Entries().end()) ++entry->second.kernels;
}

void PlacedClusters::Release(const std::string& cluster) {
  std::lock_guard<std::mutex> lock(Mutex());
  const auto entry = Entries().find(cluster);
  if (entry == Entries().end() || --entry->second.kernels > 0) return;
  Entries().erase(entry);
  Gone().push_back(cluster);
}

tensorflow::FunctionDefLibrary PlacedClusters::Library(const std::string& cluster) {
  std::lock_guard<std::mutex> lock(Mutex());
  const auto entry = Entries().find(cluster);
  return entry == Entries().end() ? tensorflow::FunctionDefLibrary() : entry->second.library;
}

std::vector<std::string> PlacedClusters::TakeGone() {
  std::lock_guard<std::mutex> lock(Mutex());
  std::vector<std::string> gone;
  gone.swap(Gone());
  return gone;
}

}  // namespace tensorflow_ipu
