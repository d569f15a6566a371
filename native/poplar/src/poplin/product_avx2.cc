#include "poplin/product_eigen.h"

namespace poplin {

void MultiplyAvx2(const Product& product) { MultiplyHere(product); }

}  // namespace poplin
