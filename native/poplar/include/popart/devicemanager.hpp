// Devices. Programs get them in Python: popart.DeviceManager.
#ifndef popart_devicemanager_hpp
#define popart_devicemanager_hpp

#include <popart/names.hpp>

namespace popart {

class DeviceInfo {
 public:
  virtual ~DeviceInfo();
};

class DeviceManager {
 public:
  static DeviceManager &createDeviceManager();
  std::shared_ptr<DeviceInfo> createIpuModelDevice(const std::map<std::string, std::string> &);
  std::shared_ptr<DeviceInfo> acquireAvailableDevice(int numIpus = 1, int tilesPerIpu = 0);
};

}  // namespace popart

#endif  // popart_devicemanager_hpp
