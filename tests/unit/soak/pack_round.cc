// Writing, reading back and converting.
#include "base/strings.h"
#include "shardkit/loader.h"
#include "support/fault_filesystem.h"
#include "support/unsynced_filesystem.h"
#include "unit/soak/soak.h"

namespace shardkit::test {

std::string SoakCounts::Text() const {
  return StrCat(rounds, " rounds, ", datasets, " datasets (", resumed, " resumed, ", failed, " failed first, ",
                conversions, " converted), ", samples, " samples, ", bytes, " bytes; ", damages, " damages, ", found,
                " found; ", blocks_recovered, " blocks recovered, ", blocks_lost, " lost with ", samples_lost,
                " samples");
}

SoakRound::SoakRound(uint64_t seed, SoakCounts* counts) : generator_(seed), counts_(*counts) {}

void SoakRound::Expect(bool holds, const std::string& what) {
  if (!holds && contradiction_.empty()) contradiction_ = what;
}

std::string SoakRound::Run() {
  ++counts_.rounds;
  const uint64_t target = generator_.Below(3);
  to_mds_ = target == 1;
  to_tar_ = target == 2;
  generator_.Make({.mds = to_mds_, .tar = to_tar_});
  Pack();
  if (contradiction_.empty()) ReadBack("/data");
  if (contradiction_.empty()) ReadEpoch();
  if (contradiction_.empty() && (to_mds_ || to_tar_)) Convert();
  for (int turn = 0; turn < 3 && contradiction_.empty(); ++turn) DamageAndRepair();
  return contradiction_;
}

void SoakRound::Pack() {
  auto files = std::make_unique<UnsyncedFileSystem>();
  DatasetWriterOptions options = generator_.Options();
  const Schema schema = MakeSchema(generator_.columns());
  const uint64_t way = generator_.Below(3);
  if (way == 1) {
    FaultFileSystem faults(files.get());
    faults.FailCall(1 + generator_.Below(60), {.status = absl::ResourceExhaustedError("no space"),
                                               .all_following = generator_.Chance(50),
                                               .short_write = generator_.Chance(50)});
    const auto failed = WriteSamples(DatasetWriter::Create(faults, "/data", schema, options), generator_.samples());
    if (!failed.ok()) ++counts_.failed;
    Expect(failed.ok() || faults.failed_call().has_value(), "failed without a fault: " + Message(failed.status()));
    if (Exists(*files, "/data/dataset.json")) {
      Expect(ValidateText(*files, "/data").empty(),
             "a failed run left a broken dataset: " + ValidateText(*files, "/data"));
      (void)RemoveTree(*files, "/data");
    }
  } else if (way == 2) {
    auto writer = DatasetWriter::Create(*files, "/data", schema, options);
    Expect(writer.ok(), Message(writer.status()));
    if (!writer.ok()) return;
    const Samples some(
        generator_.samples().begin(),
        generator_.samples().begin() + static_cast<ptrdiff_t>(generator_.Below(generator_.samples().size() + 1)));
    for (size_t i = 0; i < some.size(); ++i) {
      OwnedSample sample;
      for (const Column& column : schema.columns()) {
        const auto value = some[i].find(column.name);
        if (value == some[i].end()) continue;
        if (column.is_key) {
          sample.key = value->second;
        } else {
          sample.fields.emplace_back(&column, value->second);
        }
      }
      const absl::Status status = (*writer)->Append(sample.View(), i + 1);
      Expect(status.ok(), Message(status));
    }
    auto crashed = files->Crash(generator_.Below(1 << 20));
    writer->reset();
    files = std::move(crashed);
    options.resume = true;
    ++counts_.resumed;
  }
  const auto written = WriteSamples(DatasetWriter::Create(*files, "/data", schema, options), generator_.samples());
  Expect(written.ok(), "writing: " + Message(written.status()));
  files_ = std::move(files);
  if (!written.ok()) return;
  ++counts_.datasets;
  counts_.samples += generator_.samples().size();
  counts_.bytes += written->manifest.bytes;
  const std::string problem = ValidateText(*files_, "/data");
  Expect(problem.empty(), "a new dataset is not valid: " + problem);
}

void SoakRound::ReadBack(const std::string& path) {
  const Samples& samples = generator_.samples();
  Expect(ScanRows(*files_, path) == samples, path + " gives other samples in order");
  DatasetOptions options;
  options.max_open_shards = 1 + generator_.Below(3);
  options.mode = generator_.Chance(50) ? ReadMode::kBuffered : ReadMode::kMapped;
  const auto dataset = DatasetReader::Open(*files_, path, options);
  Expect(dataset.ok(), Message(dataset.status()));
  if (!dataset.ok()) return;
  std::vector<BlockBuffer> buffers(2);
  for (int i = 0; i < 40; ++i) {
    const uint64_t sample = generator_.Below(samples.size());
    const size_t c = generator_.Below((*dataset)->columns().size());
    const auto value = (*dataset)->ReadValue(sample, c, &buffers[generator_.Below(buffers.size())]);
    Expect(value.ok(), Message(value.status()));
    if (!value.ok()) return;
    const auto expected = samples[sample].find((*dataset)->columns()[c].name);
    Expect(expected == samples[sample].end() ? !value->has_value() : *value == expected->second,
           StrCat(path, " gives another value of sample ", sample, ", column ", c));
  }
}

// Every sample comes once, with its values.
void SoakRound::ReadEpoch() {
  LoaderOptions options;
  options.plan.seed = generator_.Below(1000);
  options.plan.batch_size = 1 + generator_.Below(7);
  options.decode_threads = options.read_threads = 1;
  for (const Column& column : generator_.columns()) {
    if (!column.is_key) options.columns.push_back({.name = column.name, .decode = ColumnDecode::kViews});
  }
  const auto loader = Loader::Open(*files_, {{.path = "/data"}}, options);
  Expect(loader.ok(), Message(loader.status()));
  if (!loader.ok()) return;
  const Samples& samples = generator_.samples();
  std::vector<int> seen(samples.size());
  while (true) {
    const auto batch = (*loader)->Next();
    Expect(batch.ok(), Message(batch.status()));
    if (!batch.ok() || *batch == nullptr) break;
    for (size_t i = 0; i < (*batch)->size(); ++i) {
      const BatchSample& sample = (*batch)->samples()[i];
      if (sample.position >= samples.size()) continue;  // padding
      ++seen[sample.ordinal];
      for (size_t c = 0; c < (*batch)->column_count(); ++c) {
        const BatchColumn& column = (*batch)->column(c);
        const auto expected = samples[sample.ordinal].find(std::string(column.name));
        const std::string_view value = column.views[i];
        Expect(expected == samples[sample.ordinal].end() ? value.data() == nullptr
                                                         : value.data() != nullptr && value == expected->second,
               StrCat("the loader gives another value of sample ", sample.ordinal));
      }
    }
  }
  for (const int count : seen) Expect(count == 1, "the loader gave a sample not once");
}

void SoakRound::Convert() {
  ConvertOptions options = SmallOptions(to_mds_ ? Container::kMds : Container::kWebDataset, 1 + generator_.Below(9));
  if (to_mds_ && generator_.Chance(50)) options.mds.compression = "zstd";
  const bool without_key = to_mds_ || MakeSchema(generator_.columns()).key_column().has_value();
  if (!without_key) return;  // a tar would number its samples
  absl::Status status = ConvertTo(*files_, "/data", "/there", options);
  Expect(status.ok(), "converting: " + Message(status));
  if (!status.ok()) return;
  status = ConvertTo(*files_, "/there", "/back", Container::kShard);
  Expect(status.ok(), "converting back: " + Message(status));
  if (!status.ok()) return;
  counts_.conversions += 2;
  counts_.datasets += 2;
  counts_.samples += 2 * generator_.samples().size();
  Expect(ColumnsOf(*files_, "/back") == ColumnsOf(*files_, "/data"), "other columns came back");
  ReadBack("/back");
}

}  // namespace shardkit::test
