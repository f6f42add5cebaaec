// Measures adding a column of f32 to a dataset beside a plain loop that writes the values.
//
//   columns_bench SAMPLES DIR [ROUNDS]
//
// Makes in DIR, which must be empty or missing, a dataset of SAMPLES samples with keys, and files with a value for
// each: in the order of the samples, and in another order with keys. Removes them at the end.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

const Column kKey{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
const Column kNumber{.name = "number", .type = Type::kI64, .codec = Codec::kZstd};
const Column kScore{.name = "score", .type = Type::kF32, .codec = Codec::kZstd};

std::string KeyOf(uint64_t i) {
  char text[40];
  std::snprintf(text, sizeof(text), "sample-%09llu", static_cast<unsigned long long>(i));
  return text;
}

float ScoreOf(uint64_t i) { return static_cast<float>(i * 2654435761 % 1000003) / 1000003.0F; }

// In an order that is neither that of the samples nor random at each step.
uint64_t Elsewhere(uint64_t i, uint64_t samples) { return i * 7919 % samples; }

std::string_view Bytes(const float& score) { return {reinterpret_cast<const char*>(&score), sizeof(score)}; }

// Keys and values out of memory, computed as they are asked for.
class KeyedScores final : public ColumnRows {
 public:
  KeyedScores(uint64_t samples, uint64_t rows)
      : schema_(Must(Schema::Create({kKey, kScore}))), samples_(samples), rows_(rows) {}
  const Schema& schema() const override { return schema_; }
  absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) override {
    if (next_ == rows_) return false;
    const uint64_t sample = Elsewhere(next_++, samples_);
    key_ = KeyOf(sample);
    score_ = ScoreOf(sample);
    row[0] = key_;
    row[1] = Bytes(score_);
    return true;
  }

 private:
  const Schema schema_;
  const uint64_t samples_;
  const uint64_t rows_;
  uint64_t next_ = 0;
  std::string key_;
  float score_ = 0;
};

void WriteBase(FileSystem& files, const std::string& path, uint64_t samples) {
  DatasetWriterOptions options;
  options.shard_samples = 100'000;
  options.shard.max_block_samples = 4096;
  const auto writer = Must(DatasetWriter::Create(files, path, Must(Schema::Create({kKey, kNumber})), options));
  for (uint64_t i = 0; i < samples; ++i) {
    const std::string key = KeyOf(i);
    const std::optional<Value> row[] = {Value(key), Value(std::string_view(reinterpret_cast<const char*>(&i), 8))};
    Must(writer->Append(row));
  }
  Must(writer->Finish());
}

// The values as NumPy saves them.
void WriteNpy(const std::string& path, uint64_t samples) {
  char header[128];
  std::memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
  std::snprintf(header + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu,), }%60s",
                static_cast<unsigned long long>(samples), "");
  std::memset(header + 10 + std::strlen(header + 10), ' ', 128 - 10 - std::strlen(header + 10));
  header[127] = '\n';
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::exit(1);
  std::fwrite(header, 1, sizeof(header), file);
  for (uint64_t i = 0; i < samples; ++i) {
    const float score = ScoreOf(i);
    std::fwrite(&score, 4, 1, file);
  }
  std::fclose(file);
}

// A dataset of the column alone, sample by sample.
void WriteLoop(FileSystem& files, const std::string& path, const std::string& values) {
  const auto rows = Must(OpenColumnRows(files, values));
  const auto writer = Must(DatasetWriter::Create(files, path, rows->schema()));
  std::optional<std::string_view> value;
  std::optional<Value> row[1];
  while (Must(rows->Next({&value, 1}))) {
    row[0] = Value(*value);
    Must(writer->Append(row));
  }
  Must(writer->Finish());
}

// A file of the values alone, one fwrite each, flushed to the device as shards are.
void WriteFileLoop(FileSystem& files, const std::string& path, const std::string& values) {
  const auto rows = Must(OpenColumnRows(files, values));
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::exit(1);
  std::optional<std::string_view> value;
  while (Must(rows->Next({&value, 1}))) std::fwrite(value->data(), 1, value->size(), file);
  std::fflush(file);
  (void)fsync(fileno(file));
  std::fclose(file);
}

void CheckScores(FileSystem& files, const std::string& path, uint64_t samples) {
  DatasetOptions options;
  options.columns = {"score"};
  const auto dataset = Must(DatasetReader::Open(files, path, options));
  const auto scanner = Must(dataset->Scan());
  uint64_t sample = 0;
  while (const auto block = Must(scanner->Next())) {
    for (uint32_t i = 0; i < block->view().sample_count(); ++i, ++sample) {
      if (block->view().column(0).value(i) != Bytes(ScoreOf(sample))) {
        std::fprintf(stderr, "%s: sample %llu has another score\n", path.c_str(),
                     static_cast<unsigned long long>(sample));
        std::exit(1);
      }
    }
  }
  if (sample != samples) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uint64_t samples = std::strtoull(argv[1], nullptr, 10);
  const std::string work = argv[2];
  const int rounds = argc > 3 ? static_cast<int>(std::strtol(argv[3], nullptr, 10)) : 3;
  FileSystem& files = *PosixFileSystem();
  Must(CreateDirectories(files, work));
  const std::string base = work + "/base", copy = work + "/copy", loop = work + "/loop", values = work + "/score.npy";
  WriteBase(files, base, samples);
  WriteNpy(values, samples);
  // Each round changes a dataset of its own, of the same shards.
  const auto fresh = [&] {
    Must(RemoveTree(files, copy));
    Must(MergeDatasets(files, {base}, copy));
  };
  const auto add_by_key = [&](uint64_t count) {
    KeyedScores rows(samples, count);
    Must(AddColumns(files, copy, rows));
  };
  std::vector<Contender> contenders = {
      {.name = "plain loop over DatasetWriter",
       .work = [&] { WriteLoop(files, loop, values); },
       .prepare = [&] { Must(RemoveTree(files, loop)); }},
      {.name = "plain loop over fwrite", .work = [&] { WriteFileLoop(files, work + "/raw", values); }},
      {.name = "add by order",
       .work = [&] { Must(AddColumns(files, copy, *Must(OpenColumnRows(files, values)))); },
       .prepare = fresh},
      {.name = "add by key to one sample in a hundred", .work = [&] { add_by_key(samples / 100); }, .prepare = fresh},
      {.name = "add by key", .work = [&] { add_by_key(samples); }, .prepare = fresh},
  };
  RunAlternating(contenders, rounds);
  CheckScores(files, copy, samples);
  for (const Contender& contender : contenders) {
    Report(contender.name, Median(contender.seconds), "s");
    Report(contender.name + ", ratio", 1 / SpeedRatio(contender, contenders[0]), "");
    Report(contender.name + ", processor ratio", 1 / ProcessorRatio(contender, contenders[0]), "");
  }
  Must(RemoveTree(files, work));
  return 0;
}
