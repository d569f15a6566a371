// Functions of popops by name, for the programs of test_values.py and test_errors.py.
#include "../harness.hpp"
#include "elementwise.hpp"

int main() {
  harness::Functions functions;
  addElementwise(functions);
  return harness::main(functions);
}
