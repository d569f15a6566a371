// Kinds of streams.
#ifndef poplar_DataStreamType_hpp
#define poplar_DataStreamType_hpp

namespace poplar {

enum class DataStreamType {
  HostToDeviceFIFO,
  DeviceToHostFIFO,
  HostToDeviceBuffer,
  DeviceToHostBuffer
};

}  // namespace poplar

#endif  // poplar_DataStreamType_hpp
