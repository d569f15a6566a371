// Devices that run programs.
#ifndef poplar_Device_hpp
#define poplar_Device_hpp

#include <poplar/OptionFlags.hpp>
#include <poplar/Target.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace poplar {

namespace core {
struct DeviceData;
}  // namespace core

/// One or several IPUs of the simulated machine, an IPU Model, or the CPU.
class Device {
 public:
  Device();
  Device(Device &&other) noexcept;
  Device &operator=(Device &&other) noexcept;
  ~Device();

  unsigned getId() const;
  const Target &getTarget() const;
  std::vector<unsigned> getDriverIDs() const;
  bool attach() const;
  void detach() const;
  bool isAttached() const;
  bool supportsRemoteBuffers() const;
  bool hasGateway() const;
  void getDriverVersion(unsigned &major, unsigned &minor, unsigned &point) const;
  std::map<std::string, std::string> getAttributes() const;
  std::string getAttribute(StringRef name) const;
  void reset() const;
  /// All IPUs are near all cores.
  std::vector<unsigned> getNumaTopology() const;
  std::vector<unsigned> getNumaNodesUsedForIPUs() const;
  /// The same device with fewer tiles for each IPU.
  Device createVirtualDevice(unsigned tilesPerIPU);

  static Device createCPUDevice(unsigned numIPUs = 1);
  static Device createSimulatorDevice(const Target &target,
                                      const OptionFlags &options = OptionFlags());

 private:
  friend struct core::Access;
  std::unique_ptr<core::DeviceData> data_;
};

}  // namespace poplar

#endif  // poplar_Device_hpp
