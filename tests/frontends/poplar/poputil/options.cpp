// Parses options that are given as arguments "name=value", and prints them or the error.
#include <poputil/OptionParsing.hpp>

#include <iostream>
#include <string>

int main(int count, char **arguments) {
  enum class Mode { Slow, Fast } mode = Mode::Slow;
  int number = 1;
  double real = 0.5;
  bool flag = false;
  std::string text;
  std::vector<int> list;
  const poplibs::OptionSpec spec{{"mode", poplibs::OptionHandler::createWithEnum<Mode>(
                                              mode, {{"slow", Mode::Slow}, {"fast", Mode::Fast}})},
                                 {"number", poplibs::OptionHandler::createWithInteger(number)},
                                 {"real", poplibs::OptionHandler::createWithDouble(real)},
                                 {"flag", poplibs::OptionHandler::createWithBool(flag)},
                                 {"text", poplibs::OptionHandler::createWithString(text)},
                                 {"list", poplibs::OptionHandler::createWithList(list)}};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const std::size_t equals = argument.find('=');
    try {
      spec.parse(argument.substr(0, equals), argument.substr(equals + 1));
    } catch (const poplar::invalid_option &error) {
      std::cout << error.type << ": " << error.what() << "\n";
    }
  }
  std::cout << (mode == Mode::Fast) << " " << number << " " << real << " " << flag << " " << text;
  for (const int n : list) std::cout << " " << n;
  std::cout << "\n";
}
