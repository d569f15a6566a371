#include "poplin/product_eigen.h"

namespace poplin {

void MultiplyAvx512(const Product& product) { MultiplyHere(product); }

}  // namespace poplin
