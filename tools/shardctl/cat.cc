// shardctl cat
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "decode.h"
#include "file_target.h"
#include "interrupt.h"
#include "output.h"
#include "report.h"
#include "verbs.h"

namespace shardctl {
namespace {

bool IsText(const shardkit::Column& column) {
  return column.type == shardkit::Type::kUtf8 || column.type == shardkit::Type::kJson;
}

// False when the value is absent.
absl::StatusOr<bool> CopyOrDecode(const shardkit::DatasetReader& dataset, uint64_t sample, size_t column, bool decode,
                                  const shardkit::ByteSink& sink) {
  const shardkit::Column& described = dataset.columns()[column];
  if (!decode || shardkit::IsByteString(described)) return dataset.CopyValue(sample, column, sink);
  shardkit::BlockBuffer buffer;
  const absl::StatusOr<std::optional<std::string_view>> value = dataset.ReadValue(sample, column, &buffer);
  if (!value.ok()) return value.status();
  if (!value->has_value()) return false;
  const absl::Status status = DecodeValue(described, **value, sink);
  if (const absl::Status mapped = buffer.CheckMapped(); !mapped.ok()) return mapped;
  if (!status.ok()) return status;
  return true;
}

int Finish(const absl::StatusOr<bool>& found, const shardkit::DatasetReader& dataset, uint64_t sample,
           const std::string& column) {
  if (absl::IsCancelled(found.status())) {
    PrintError("shardctl: interrupted");
    return kExitEnvironment;
  }
  if (!found.ok()) return Fail(found.status());
  if (*found) return kExitSuccess;
  return Fail(absl::OutOfRangeError(dataset.path() + ": sample " + std::to_string(sample) + " has no value in column " +
                                    Quote(column)));
}

}  // namespace

int RunCat(int argc, char** argv) {
  CommandLine line("cat", "write one value to standard output or a file",
                   "[OPTION]... PATH (--sample N | --key K) --column COL");
  std::vector<std::string> paths;
  SampleOption sample;
  std::optional<std::string> column_name;
  std::optional<std::string> output;
  bool decode = false;
  bool force = false;
  IoOption io;
  DecompressionOption decompression;
  HashOption hashes;
  AtOption at;
  line.Arguments("PATH", 1, 1, &paths);
  sample.AddTo(&line);
  line.Text("-c,--column", "COL", &column_name, "the column");
  line.Text("-o,--output", "FILE", &output,
            "write to FILE, which is replaced when the value is whole and its checksum holds");
  line.Flag("--decode", &decode,
            "masks as a JSON list of COCO objects, arrays as JSON, numbers as text; others stay as they are");
  line.Flag("--force", &force, "write binary values even to a terminal");
  io.AddTo(&line);
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  at.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Notes("Without --decode exactly the stored bytes are written. A sample without the value gives exit code 1.");
  line.Example("shardctl cat photos --key n01440764_tench --column jpg -o tench.jpg", "one photograph");
  line.Example("shardctl cat sa1b --sample 3 --column masks --decode | jq length", "how many masks has sample 3?");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!column_name.has_value()) return line.UsageError("--column is missing");
  if (!sample.given()) return line.UsageError("--sample or --key is missing");
  if (sample.sample.has_value() && sample.key.has_value()) {
    return line.UsageError("--sample and --key cannot be combined");
  }

  shardkit::ReadOptions read;
  read.mode = io.mode();
  read.max_decompression = decompression.bytes();
  read.verify_listed_hashes = hashes.verify();
  const absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> opened =
      OpenDataset(paths[0], read, {*column_name}, at.generation());
  if (!opened.ok()) return Fail(opened.status());
  const shardkit::DatasetReader& dataset = **opened;
  const absl::StatusOr<size_t> column = dataset.FindColumn(*column_name);
  if (!column.ok()) return Fail(column.status());
  const shardkit::Column& described = dataset.columns()[*column];
  const bool binary = !IsText(described) && !(decode && !shardkit::IsByteString(described));
  if (!output.has_value() && binary && !force && StdoutIsTerminal()) {
    return line.UsageError("column " + Quote(*column_name) + " is " + TypeText(described) +
                           " and standard output a terminal: use -o FILE, a pipe, --decode or --force");
  }
  const absl::StatusOr<uint64_t> ordinal = sample.Find(dataset);
  if (!ordinal.ok()) return Fail(ordinal.status());

  if (!output.has_value()) {
    const absl::StatusOr<bool> found =
        CopyOrDecode(dataset, *ordinal, *column, decode, [](std::string_view piece) -> absl::Status {
          Stdout().Write(piece);
          return Stdout().status();
        });
    NoteFallback(dataset);
    // main() reports a failed write, and stays silent when the reader has exited.
    if (!Stdout().ok()) return kExitSuccess;
    Stdout().Flush();
    return Finish(found, dataset, *ordinal, *column_name);
  }
  const shardkit::Cancellation* cancellation = CancelOnSignal();
  const absl::StatusOr<std::unique_ptr<FileTarget>> target = FileTarget::Open(*output);
  if (!target.ok()) return Fail(target.status());
  absl::StatusOr<bool> found =
      CopyOrDecode(dataset, *ordinal, *column, decode, [&](std::string_view piece) -> absl::Status {
        const absl::Status status = cancellation->Check("writing");
        return status.ok() ? (*target)->Append(piece) : status;
      });
  NoteFallback(dataset);
  if (found.ok() && *found) {
    const absl::Status status = (*target)->Commit();
    if (!status.ok()) found = status;
  }
  return Finish(found, dataset, *ordinal, *column_name);
}

}  // namespace shardctl
