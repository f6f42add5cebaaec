// Makes photographs (photos.h).
//
//   make_photos DIRECTORY COUNT

#include <cstdlib>

#include "photos.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  shardkit::bench::MakePhotos(*shardkit::PosixFileSystem(), argv[1], std::strtoull(argv[2], nullptr, 10));
  return 0;
}
