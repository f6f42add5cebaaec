// Writes the seeds of all fuzz targets.
//
//   make_seeds GOLDEN DIRECTORY [STAMP]     GOLDEN is format-spec/golden; the file STAMP is written last

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "seeds/seeds.h"
#include "support/require.h"

namespace shardkit::fuzz {

void SeedWriter::Add(std::string_view target, std::string_view name, std::string_view input) {
  const std::filesystem::path folder = std::filesystem::path(directory_) / target;
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / name, std::ios::binary);
  file.write(input.data(), static_cast<std::streamsize>(input.size()));
  file.close();
  Require(!file.fail(), "a seed is written");
  ++count_;
}

std::string SeedBytes(uint64_t number, size_t length) {
  std::mt19937_64 engine(number);
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(engine() >> 56);
  return bytes;
}

}  // namespace shardkit::fuzz

int main(int argc, char** argv) {
  using namespace shardkit::fuzz;
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: make_seeds GOLDEN DIRECTORY [STAMP]\n");
    return 2;
  }
  std::filesystem::remove_all(argv[2]);
  SeedWriter seeds(argv[2]);
  AddDatasetSeeds(argv[1], seeds);
  AddForeignSeeds(seeds);
  AddImageSeeds(seeds);
  AddPictureSeeds(seeds);
  AddPredicateSeeds(seeds);
  AddViewSeeds(seeds);
  if (argc == 4) std::ofstream(argv[3]) << seeds.count() << '\n';
  std::printf("%llu seeds\n", static_cast<unsigned long long>(seeds.count()));
}
