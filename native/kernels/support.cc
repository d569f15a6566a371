#include "kernels/support.h"

#include <unordered_set>

namespace tensorflow_ipu {
namespace {

const std::unordered_set<std::string>& UnsupportedOps() {
  static const auto* ops = new std::unordered_set<std::string>{
      // No complex numbers on the device.
      "Angle",
      "Complex",
      "ComplexAbs",
      "Conj",
      "Imag",
      "Real",
      "BatchFFT",
      "BatchFFT2D",
      "BatchFFT3D",
      "BatchIFFT",
      "BatchIFFT2D",
      "BatchIFFT3D",
      "FFT",
      "FFT2D",
      "FFT3D",
      "FFTND",
      "IFFT",
      "IFFT2D",
      "IFFT3D",
      "IFFTND",
      "RFFT",
      "RFFT2D",
      "RFFT3D",
      "RFFTND",
      "IRFFT",
      "IRFFT2D",
      "IRFFT3D",
      "IRFFTND",
      // No implementation on the device.
      "Qr",
      "MaxPoolGradGrad",
      "MaxPool3DGradGrad",
      "NonMaxSuppressionV4",
      // Reference variables: the device has resource variables only.
      "Variable",
      "VariableV2",
      "TemporaryVariable",
      "DestroyTemporaryVariable",
      "Assign",
      "AssignAdd",
      "AssignSub",
      "RefSwitch",
      "RefEnter",
      "RefExit",
      "RefMerge",
      "RefSelect",
      "RefIdentity",
      "RefNextIteration",
  };
  return *ops;
}

}  // namespace

bool IsUnsupportedOp(const std::string& type) { return UnsupportedOps().count(type) > 0; }

bool IsUnsupportedType(tensorflow::DataType type) {
  return type == tensorflow::DT_DOUBLE || type == tensorflow::DT_COMPLEX64 ||
         type == tensorflow::DT_COMPLEX128;
}

bool IsOwnHostOp(const std::string& type) {
  static const auto* ops = new std::unordered_set<std::string>{"IpuDatasetBenchmark",
                                                               "IpuDatasetExtract",
                                                               "IpuHostEmbeddingDeregister",
                                                               "IpuHostEmbeddingRegister",
                                                               "IpuInfeedDelete",
                                                               "IpuInfeedInitialize",
                                                               "IpuLaunch",
                                                               "IpuLaunchCluster",
                                                               "IpuMakeRemoteMemory",
                                                               "IpuOutfeedDelete",
                                                               "IpuOutfeedDequeue"};
  return ops->count(type) > 0;
}

bool IsDroppedCheck(const std::string& type) {
  return type == "Assert" || type == "CheckNumerics" || type == "CheckNumericsV2";
}

}  // namespace tensorflow_ipu
