// Text in columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardctl {

// Collects rows and formats them. Every column is as wide as its widest cell.
class Table {
 public:
  // `alignment` has one letter per column: 'l' left, 'r' right.
  explicit Table(std::string_view alignment) : alignment_(alignment) {}

  void AddRow(std::vector<std::string> cells);  // as many as there are columns
  std::string Format() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// The number of characters of UTF-8 text. A table uses it as the width.
size_t TextWidth(std::string_view text);

}  // namespace shardctl
