// Functions of popops by name, for the programs of test_values.py.
#include "../harness.hpp"
#include "elementwise.hpp"
#include "functions.hpp"

int main() {
  harness::Functions functions;
  addElementwise(functions);
  addFunctions(functions);
  return harness::main(functions);
}
