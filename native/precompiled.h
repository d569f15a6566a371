// The headers of TensorFlow that take longest to compile. The Makefile compiles them once and gives
// the result to every source; a source still includes what it uses.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
