// Entry point: called by `import tensorflow`, which loads every library in tensorflow-plugins.
#include "engine/abstract_values.h"
#include "kernels/mirror.h"
#include "plugin/abstract_compute.h"
#include "plugin/device.h"
#include "tensorflow/c/c_api_macros.h"

extern "C" TF_CAPI_EXPORT void TF_InitKernel() {
  // A library that is also opened with tf.load_op_library must not register twice.
  static const bool registered = [] {
    tensorflow_ipu::RegisterDeviceFactory();
    if (tensorflow_ipu::AbstractValues::Enabled()) tensorflow_ipu::RegisterAbstractCpu();
    tensorflow_ipu::RegisterMirroredKernels();
    return true;
  }();
  (void)registered;
}
