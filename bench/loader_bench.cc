// A shuffled epoch through a loader that has warmed up, compared with a scan of the same dataset and with plain
// libjpeg-turbo.
//
//   loader_bench DATASET [--column NAME] [--images] [--rounds N] [--batch N] [--diagnose]
//
// Without --images, the values of one column are delivered as stored. With --images, they are decoded to RGB at their
// own size. The yardstick is then two threads that decode the same images from memory with TurboJPEG.
#include <turbojpeg.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "scan.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

std::atomic<uint64_t> sink = 0;  // keeps the compiler from dropping work

struct Arguments {
  std::string path;
  std::string column = "bin";
  bool images = false;
  int rounds = 5;
  uint64_t batch = 256;
  bool diagnose = false;
  uint64_t bytes = 0;  // of the dataset
};

LoaderOptions Options(const Arguments& arguments, ReadMode mode, ColumnDecode decode) {
  LoaderOptions options;
  options.plan.seed = 1;
  options.plan.batch_size = arguments.batch;
  options.columns = {{.name = arguments.column}};
  options.columns[0].decode = decode;
  options.read.mode = mode;
  options.epochs = 0;
  options.plan.shuffle_buffer_bytes = arguments.bytes / 20;
  // Enough memory for the whole dataset, so that a mapped dataset stays mapped.
  options.memory_bytes = std::max<uint64_t>(64 << 20, 2 * arguments.bytes);
  return options;
}

constexpr uint64_t kEpochs = 4;  // per measurement

// Reads the next epochs of a loader without an end.
void Epochs(Loader& loader, uint64_t epochs) {
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint64_t steps = loader.steps_left(); steps > 0; --steps) {
      const auto batch = Must(loader.Next());
      sink += batch->column(0).values.size() + batch->column(0).views.size();
    }
  }
}

void Tell(const Loader& loader) {
  const LoaderReport report = loader.Report();
  const Diagnosis diagnosis = Diagnose(report);
  std::fprintf(
      stderr,
      "%.0f samples/s; read busy %.3f (file %.3f) starved %.3f blocked %.3f; decode %.3f %.3f %.3f; %s: %s; %s\n",
      static_cast<double>(report.samples) / report.seconds, report.read.busy, report.file_seconds, report.read.starved,
      report.read.blocked, report.decode.busy, report.decode.starved, report.decode.blocked, diagnosis.stage.c_str(),
      diagnosis.reason.c_str(), report.threads_note.c_str());
}

// Decodes every n-th image from memory.
void Decode(const std::vector<std::string>& images, size_t first, size_t step) {
  const tjhandle decoder = tjInitDecompress();
  std::vector<uint8_t> pixels;
  for (size_t i = first; i < images.size(); i += step) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(images[i].data());
    int width = 0, height = 0, subsampling = 0, colours = 0;
    tjDecompressHeader3(decoder, bytes, images[i].size(), &width, &height, &subsampling, &colours);
    pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    if (tjDecompress2(decoder, bytes, images[i].size(), pixels.data(), width, 0, height, TJPF_RGB, 0) != 0)
      std::exit(1);
    sink += pixels[pixels.size() / 2];
  }
  tjDestroy(decoder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Arguments arguments;
  arguments.path = argv[1];
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--images") == 0) arguments.images = true;
    if (std::strcmp(argv[i], "--diagnose") == 0) arguments.diagnose = true;
    if (i + 1 == argc) break;
    if (std::strcmp(argv[i], "--column") == 0) arguments.column = argv[i + 1];
    if (std::strcmp(argv[i], "--rounds") == 0) arguments.rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--batch") == 0) arguments.batch = static_cast<uint64_t>(std::atoll(argv[i + 1]));
  }
  const auto dataset = Must(DatasetReader::Open(*PosixFileSystem(), arguments.path));
  const double samples = kEpochs * static_cast<double>(dataset->sample_count());
  arguments.bytes = dataset->summary().bytes;
  std::vector<std::string> images;
  if (arguments.images) {
    const size_t column = Must(dataset->FindColumn(arguments.column));
    BlockBuffer buffer;
    for (uint64_t i = 0; i < dataset->sample_count(); ++i)
      images.emplace_back(*Must(dataset->ReadValue(i, column, &buffer)));
  }
  std::vector<Contender> contenders;
  if (arguments.images) {
    contenders.push_back({"two bare TurboJPEG threads",
                          [&] {
                            for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
                              std::thread other([&] { Decode(images, 1, 2); });
                              Decode(images, 0, 2);
                              other.join();
                            }
                          },
                          {},
                          {},
                          [] {}});
  } else {
    contenders.push_back({"scan, 2 threads",
                          [&] {
                            for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) sink += ScanAll(*dataset, 2);
                          },
                          {},
                          {},
                          [] {}});
  }
  const ColumnDecode decode = arguments.images ? ColumnDecode::kImage : ColumnDecode::kStored;
  // The warm-up round contains the first epoch, which uses the shuffle buffer's memory for the first time.
  std::vector<std::unique_ptr<Loader>> loaders;
  const auto add = [&](const std::string& name, ReadMode mode, ColumnDecode how) {
    loaders.push_back(
        Must(Loader::Open(*PosixFileSystem(), {{.path = arguments.path}}, Options(arguments, mode, how))));
    Loader* const loader = loaders.back().get();
    // The preparation consumes what the loader read ahead while others were measured. At the end of the measurement the
    // loader is ahead by as much again.
    contenders.push_back({name, [loader] { Epochs(*loader, kEpochs); }, {}, {}, [loader] { Epochs(*loader, 2); }});
  };
  add("shuffled epoch", ReadMode::kBuffered, decode);
  add("shuffled epoch, memory map", ReadMode::kMapped, decode);
  if (!arguments.images) {
    add("shuffled epoch, views", ReadMode::kBuffered, ColumnDecode::kViews);
    add("shuffled epoch, memory map, views", ReadMode::kMapped, ColumnDecode::kViews);
  }
  RunAlternating(contenders, arguments.rounds);
  for (const Contender& contender : contenders) {
    Report(contender.name + ": samples", samples / Median(contender.seconds), "samples/s");
    Report(contender.name + ": ratio", SpeedRatio(contender, contenders[0]), "x");
    Report(contender.name + ": processor time, ratio", ProcessorRatio(contender, contenders[0]), "x");
  }
  for (const auto& loader : loaders) {
    if (arguments.diagnose) Tell(*loader);
  }
  return sink == 42;
}
