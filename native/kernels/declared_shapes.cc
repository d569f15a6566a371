#include "kernels/declared_shapes.h"

#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

tensorflow::Status DeclaredShapes(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  for (size_t i = 0; i < shapes.size(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return tensorflow::OkStatus();
}

}  // namespace tensorflow_ipu
