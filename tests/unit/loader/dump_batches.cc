// Writes what a loader makes of SA-1B pairs to standard output, for tests/loader/real_data_test.py to compare:
//
//   dump_batches DATASET sequential|shuffled THREADS
//
// For each sample a line of JSON, {"key": …, "image": [height, width, channels], "masks": [[height, width], …]}, then
// the bytes of its image and of its masks, dense.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "shardkit/loader.h"

namespace shardkit {
namespace {

bool Write(const void* bytes, size_t size) { return std::fwrite(bytes, 1, size, stdout) == size; }

// The numbers of one item as "[a, b]".
std::string List(std::span<const uint64_t> numbers) {
  std::string text;
  for (const uint64_t number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

bool Dump(const Batch& batch) {
  const BatchColumn& images = *batch.Find("image");
  const BatchColumn& masks = *batch.Find("masks");
  for (size_t i = 0; i < batch.size(); ++i) {
    std::string sizes;
    for (uint64_t mask = masks.offsets[i]; mask < masks.offsets[i + 1]; ++mask) {
      sizes += (sizes.empty() ? "" : ", ") + List(masks.shapes.subspan(2 * mask, 2));
    }
    const std::string line = "{\"key\": \"" + std::string(batch.key(i)) +
                             "\", \"image\": " + List(images.shapes.subspan(3 * i, 3)) + ", \"masks\": [" + sizes +
                             "]}\n";
    const uint64_t first = masks.item_offsets[masks.offsets[i]], end = masks.item_offsets[masks.offsets[i + 1]];
    if (!Write(line.data(), line.size()) ||
        !Write(images.values.data() + images.offsets[i], images.offsets[i + 1] - images.offsets[i]) ||
        !Write(masks.values.data() + first, end - first)) {
      return false;
    }
  }
  return true;
}

int Run(const std::string& path, const std::string& order, int threads) {
  LoaderOptions options;
  options.plan.order = order == "shuffled" ? SampleOrder::kShuffled : SampleOrder::kSequential;
  options.plan.batch_size = 2;
  options.plan.shuffle_buffer_bytes = uint64_t{16} << 20;
  options.decode_threads = options.read_threads = threads;
  options.columns = {{.name = "image", .decode = ColumnDecode::kImage},
                     {.name = "masks", .decode = ColumnDecode::kMasks}};
  auto loader = Loader::Open(*PosixFileSystem(), {{.path = path}}, options);
  absl::Status status = loader.status();
  while (status.ok()) {
    auto batch = (*loader)->Next();
    status = batch.status();
    if (!status.ok() || *batch == nullptr) break;
    if (!Dump(**batch)) return 1;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shardkit

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return shardkit::Run(argv[1], argv[2], std::atoi(argv[3]));
}
