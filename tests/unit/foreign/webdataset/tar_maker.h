// Tars for tests.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"

namespace shardkit::test {

struct TarMember {
  std::string name;
  std::string data;
  char type = '0';
};

// One block of 512 bytes; `name` has at most 100 bytes. Sizes from 8 GiB on are written in base 256.
std::string TarHeaderBlock(std::string_view name, uint64_t size, char type = '0');

// ustar, closed with two blocks of zeros.
std::string MakeTar(const std::vector<TarMember>& members);

// Through libarchive: format "ustar", "pax" or "gnutar", filter "none", "gzip", "bzip2", "xz" or "zstd".
std::string WriteTar(const std::vector<TarMember>& members, const std::string& format,
                     const std::string& filter = "none");

// The values of each of a dataset's samples, by column, in order; read block by block.
std::vector<std::map<std::string, std::string>> AllRows(const DatasetReader& dataset);

// The same value by value: ReadValue and CopyValue, which must agree.
std::vector<std::map<std::string, std::string>> AllRowsByValue(const DatasetReader& dataset);

// The samples of these members in a row, by webdataset's rule, implemented again here.
std::vector<std::map<std::string, std::string>> Expected(const std::vector<TarMember>& members);

}  // namespace shardkit::test
