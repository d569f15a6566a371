// Which feeds each device has.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_FEED_MANAGER_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_FEED_MANAGER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/device_state.h"
#include "engine/feeds/infeed.h"
#include "engine/feeds/outfeed.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {

// The feeds of one device. A feed lives from its initialisation or first filling (an infeed) or
// first use (an outfeed) until it is deleted or the device is reset. Thread-safe.
class FeedManager {
 public:
  // The feeds of `/device:IPU:<ordinal>`, or null when there can be no such device.
  static FeedManager* Get(int ordinal);

  // Drops every feed of every device. For when the configuration is reset, after the devices have
  // become idle.
  static void ResetAll();

  // Like ResetAll, for the end of the process: a dataset that does not stop soon is left alone,
  // since what it waits for may never come.
  static void ShutDown();

  // Drops every feed of this device.
  void Reset();

  tensorflow::Status AddInfeed(const std::string& name, std::shared_ptr<Infeed> infeed);
  // The infeed that Fill is for of that name, made if there is none.
  std::shared_ptr<Infeed> FindOrAddInfeed(const InfeedOptions& options);
  tensorflow::Status FindInfeed(const std::string& name, std::shared_ptr<Infeed>* infeed);
  // Returns once the dataset is no longer used. If `cancellation` (may be null) is cancelled
  // before, the dataset is left alone.
  tensorflow::Status DeleteInfeed(const std::string& name,
                                  tensorflow::CancellationManager* cancellation);
  // Drops an infeed because no program can use it any more. Not an error if there is none. A
  // dataset that does not stop soon is left alone.
  void DropInfeed(const std::string& name);
  // Drops `infeed` because what its dataset needs is going away. Not an error if it is gone.
  void AbandonInfeed(const std::string& name, const std::shared_ptr<Infeed>& infeed);

  std::shared_ptr<Outfeed> FindOrAddOutfeed(const std::string& name, OutfeedMode mode);
  // Null when no program has used the outfeed yet.
  std::shared_ptr<Outfeed> FindOutfeed(const std::string& name);
  tensorflow::Status DeleteOutfeed(const std::string& name);
  // Drops an outfeed because no program can use it any more. Not an error if there is none.
  void DropOutfeed(const std::string& name);

  // How many feeds of each kind all devices have.
  static int64_t CountInfeeds();
  static int64_t CountOutfeeds();

 private:
  FeedManager() = default;
  static FeedManager* All();
  std::vector<std::shared_ptr<Infeed>> RemoveAll();
  bool DeviceIsRunning();

  int ordinal_ = 0;
  tensorflow::mutex mu_;
  std::unordered_map<std::string, std::shared_ptr<Infeed>> infeeds_ TF_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::shared_ptr<Outfeed>> outfeeds_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_FEED_MANAGER_H_
