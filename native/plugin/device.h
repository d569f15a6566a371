// The TensorFlow device of type "IPU".
#ifndef TENSORFLOW_IPU_PLUGIN_DEVICE_H_
#define TENSORFLOW_IPU_PLUGIN_DEVICE_H_

namespace tensorflow_ipu {

extern const char* const kIpuDeviceType;

// Makes TensorFlow know the device type. Called once, when the plugin is loaded.
void RegisterDeviceFactory();

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_PLUGIN_DEVICE_H_
