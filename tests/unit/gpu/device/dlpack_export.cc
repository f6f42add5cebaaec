// A batch's array as a DLPack tensor, for tests/gpu/dlpack_test.py to hand to frameworks.
#include <memory>
#include <string>
#include <utility>

#include "shardkit/dataset_writer.h"
#include "shardkit/dlpack.h"
#include "shardkit/filesystem.h"
#include "shardkit/loader.h"

namespace {

using namespace shardkit;

constexpr size_t kRows = 6;

absl::StatusOr<std::shared_ptr<const Batch>> LoadBatch() {
  static const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  static const std::vector<Column> columns = {
      {.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
      {.name = "f32", .type = Type::kNdarray, .dtype = Type::kF32, .shape = std::vector<uint64_t>{3}},
      {.name = "i16", .type = Type::kNdarray, .dtype = Type::kI16, .shape = std::vector<uint64_t>{4}},
      {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true}};
  const auto schema = Schema::Create(columns);
  if (!schema.ok()) return schema.status();
  DatasetWriterOptions writer_options;
  writer_options.sync = false;
  auto writer = DatasetWriter::Create(*files, "/data", *schema, writer_options);
  if (!writer.ok()) return writer.status();
  for (size_t i = 0; i < kRows; ++i) {
    std::string floats, numbers;
    for (size_t j = 0; j < 3; ++j) {
      const float value = static_cast<float>(i) + static_cast<float>(j) / 4;
      floats.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    for (size_t j = 0; j < 4; ++j) {
      const auto value = static_cast<int16_t>(100 * i + j);
      numbers.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    const std::string text(i, 'x');
    Sample sample;
    const std::string key = std::to_string(i);  // a sample only borrows it
    sample.key = key;
    sample.fields = {{&columns[1], Value(floats)}, {&columns[2], Value(numbers)}};
    if (i != 2) sample.fields.push_back({&columns[3], Value(text)});
    if (const absl::Status status = (*writer)->Append(sample, i + 1); !status.ok()) return status;
  }
  if (const auto summary = (*writer)->Finish(); !summary.ok()) return summary.status();
  LoaderOptions options;
  options.plan.order = SampleOrder::kSequential;
  options.plan.batch_size = kRows;
  options.pinned_bytes = 8 << 20;
  options.device = "emulated";
  auto loader = Loader::Open(*files, {{.path = "/data"}}, options);
  if (!loader.ok()) return loader.status();
  return (*loader)->Next();
}

std::string error;

}  // namespace

// A tensor, versioned or not, or null. Then shardkit_test_error gives the reason.
extern "C" __attribute__((visibility("default"))) void* shardkit_test_dlpack(const char* column, int array,
                                                                             int versioned) {
  static const auto batch = LoadBatch();
  if (!batch.ok()) {
    error = batch.status().ToString();
    return nullptr;
  }
  for (size_t c = 0; c < (*batch)->column_count(); ++c) {
    if ((*batch)->column(c).name != column) continue;
    const auto which = static_cast<BatchArray>(array);
    const absl::Status ended = (*batch)->Synchronize();
    if (!ended.ok()) {
      error = ended.ToString();
      return nullptr;
    }
    if (versioned != 0) {
      const auto tensor = ToDlpackVersioned(*batch, c, which, nullptr);
      if (tensor.ok()) return *tensor;
      error = tensor.status().ToString();
    } else {
      const auto tensor = ToDlpack(*batch, c, which, nullptr);
      if (tensor.ok()) return *tensor;
      error = tensor.status().ToString();
    }
    return nullptr;
  }
  error = "no such column";
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) const char* shardkit_test_error() { return error.c_str(); }
