// The files of tools/view/page, which the build puts into the program.
#pragma once

#include <span>
#include <string_view>

namespace shardctl {

struct PageFile {
  std::string_view name;
  std::string_view bytes;
};

std::span<const PageFile> PageFiles();

}  // namespace shardctl
