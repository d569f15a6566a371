// The devices of the machine.
#ifndef poplar_DeviceManager_hpp
#define poplar_DeviceManager_hpp

#include <poplar/Device.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/TargetType.hpp>

#include <vector>

namespace poplar {

/// The simulated machine: 16 IPUs, and groups of 2, 4, 8 and 16 of them.
class DeviceManager {
 public:
  DeviceManager() {}
  static DeviceManager createDeviceManager() { return DeviceManager(); }

  /// Single IPUs first, in the order of their ids.
  std::vector<Device> getDevices(const OptionFlags &options = OptionFlags()) const;
  /// Those of a kind and size; empty where none fits.
  std::vector<Device> getDevices(TargetType type, unsigned numIPUs,
                                 const OptionFlags &options = OptionFlags()) const;
  /// Throws poplar_error for an id that is not there.
  Device getDevice(unsigned id, const OptionFlags &options = OptionFlags()) const;
  Device getDevice(TargetType type, unsigned id, const OptionFlags &options = OptionFlags()) const;
  std::size_t getNumDevices() const;
  std::vector<unsigned> getChildDeviceIds(unsigned parentId, unsigned numChildIpus = 1) const;
};

}  // namespace poplar

#endif  // poplar_DeviceManager_hpp
