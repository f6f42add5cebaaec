// Deep validation of JPEGs, compared with a plain TurboJPEG loop over the same bytes.
//
//   deep_bench DATASET COLUMN

#include <turbojpeg.h>

#include <cstring>

#include "shardkit/dataset_reader.h"
#include "shardkit/validate.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FileSystem& files = *PosixFileSystem();
  DatasetOptions options;
  options.columns = {argv[2]};
  const auto dataset = Must(DatasetReader::Open(files, argv[1], options));
  std::vector<std::string> images;
  BlockBuffer buffer;
  for (uint64_t i = 0; i < dataset->sample_count(); ++i) {
    if (const auto value = Must(dataset->ReadValue(i, 0, &buffer))) images.emplace_back(*value);
  }
  std::vector<unsigned char> pixels;
  std::vector<Contender> contenders;
  contenders.push_back({"bare TurboJPEG",
                        [&] {
                          const tjhandle decoder = tjInitDecompress();
                          for (const std::string& image : images) {
                            int width = 0, height = 0, subsampling = 0, colours = 0;
                            const auto* bytes = reinterpret_cast<const unsigned char*>(image.data());
                            tjDecompressHeader3(decoder, bytes, image.size(), &width, &height, &subsampling, &colours);
                            const int format = colours == TJCS_GRAY ? TJPF_GRAY : TJPF_RGB;
                            pixels.resize(static_cast<size_t>(width) * height * tjPixelSize[format]);
                            tjDecompress2(decoder, bytes, image.size(), pixels.data(), width, 0, height, format, 0);
                          }
                          tjDestroy(decoder);
                        },
                        {},
                        {}});
  contenders.push_back({"validate --deep, 1 thread",
                        [&] {
                          ValidateOptions deep;
                          deep.deep = true;
                          Must(Validate(files, argv[1], deep));
                        },
                        {},
                        {}});
  RunAlternating(contenders, 5);
  for (const Contender& contender : contenders) {
    Report(contender.name, static_cast<double>(images.size()) / Median(contender.seconds), "images/s");
  }
  Report("validate --deep, processor time, ratio to bare TurboJPEG", ProcessorRatio(contenders[1], contenders[0]), "x");
  return 0;
}
