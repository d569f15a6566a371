#include "poplin/product_eigen.h"

namespace poplin {

void MultiplyBase(const Product& product) { MultiplyHere(product); }

}  // namespace poplin
