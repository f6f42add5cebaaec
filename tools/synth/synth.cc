#include "synth/synth.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "synth/random.h"
#include "synth/run.h"
#include "synth/sa1b.h"

namespace shardctl {
namespace {

constexpr uint32_t kLongestSide = 16384;
constexpr uint32_t kMostObjects = 250;  // a picture's map of objects has one byte per pixel
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint64_t kFilesStream = 'F';

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("synthetic ", parts...));
}

absl::Status CheckOptions(const SynthSa1bOptions& options) {
  if (options.threads < 0) return InvalidArgument("SA-1B: negative number of threads");
  if ((options.width == 0) != (options.height == 0)) {
    return InvalidArgument("SA-1B: give both width and height, or neither");
  }
  if (std::max(options.width, options.height) > kLongestSide) {
    return InvalidArgument("SA-1B: ", options.width, " x ", options.height, " pixels; at most ", kLongestSide,
                           " on a side");
  }
  if (options.min_objects > options.max_objects || options.max_objects > kMostObjects) {
    return InvalidArgument("SA-1B: ", options.min_objects, " to ", options.max_objects,
                           " objects per picture; at most ", kMostObjects);
  }
  if (options.jpeg_quality < 1 || options.jpeg_quality > 100) {
    return InvalidArgument("SA-1B: JPEG quality ", options.jpeg_quality, "; 1 to 100");
  }
  if (options.count > UINT64_MAX - options.first_id) {
    return InvalidArgument("SA-1B: image numbers pass 2^64 - 1");
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const SynthFilesOptions& options) {
  if (options.threads < 0) return InvalidArgument("files: negative number of threads");
  if (options.size_jitter_percent > 100) {
    return InvalidArgument("files: size jitter of ", options.size_jitter_percent, " %; at most 100");
  }
  if (options.size > uint64_t{1} << 48) {
    return InvalidArgument("files: ", options.size, " bytes per file; at most 2^48");
  }
  if (options.extension.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return InvalidArgument("files: \"", options.extension, "\" cannot be a file name's extension");
  }
  return absl::OkStatus();
}

std::string ZeroPadded(uint64_t number, size_t digits) {
  std::string text = absl::StrCat(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

void FillRandom(size_t length, SynthRandom& random, std::string* piece) {
  piece->resize((length + 7) / 8 * 8);
  for (size_t i = 0; i < length; i += 8) {
    const uint64_t number = random.Next();
    for (size_t byte = 0; byte < 8; ++byte) (*piece)[i + byte] = static_cast<char>(number >> (8 * byte));
  }
  piece->resize(length);
}

// Words of two to four syllables, a few common and many rare, in lines of up to 80 characters.
void FillText(size_t length, SynthRandom& random, std::string* piece) {
  static constexpr std::string_view kSyllables[] = {"ka", "to",  "mi",  "ren", "sal", "vo",  "du", "lin",
                                                    "pe", "gor", "ash", "ti",  "nu",  "bel", "ox", "fa"};
  piece->clear();
  size_t line = 0;
  while (piece->size() < length) {
    // The product of two draws favours small numbers: word k turns up about as 1/k.
    uint64_t word = random.Below(64) * random.Below(64);
    const size_t before = piece->size();
    for (uint64_t syllables = 2 + word % 3; syllables > 0; --syllables, word /= 16) {
      piece->append(kSyllables[word % 16]);
    }
    line += piece->size() - before + 1;
    piece->push_back(line > 72 ? '\n' : ' ');
    if (line > 72) line = 0;
  }
  piece->resize(length);
  if (length > 0) piece->back() = '\n';
}

uint64_t FileSize(const SynthFilesOptions& options, SynthRandom& random) {
  const uint64_t spread =
      options.size / 100 * options.size_jitter_percent + options.size % 100 * options.size_jitter_percent / 100;
  return options.size - spread + random.Next() % (2 * spread + 1);
}

absl::StatusOr<uint64_t> WritePair(shardkit::FileSystem& file_system, const std::string& directory, uint64_t id,
                                   bool overwrite, std::string_view jpeg, std::string_view json) {
  const auto jpeg_file = PartialFile::Create(file_system, directory, absl::StrCat("sa_", id, ".jpg"), overwrite);
  if (!jpeg_file.ok()) return jpeg_file.status();
  const auto json_file = PartialFile::Create(file_system, directory, absl::StrCat("sa_", id, ".json"), overwrite);
  if (!json_file.ok()) return json_file.status();
  if (absl::Status status = (*jpeg_file)->Append(jpeg); !status.ok()) return status;
  if (absl::Status status = (*jpeg_file)->Close(); !status.ok()) return status;
  if (absl::Status status = (*json_file)->Append(json); !status.ok()) return status;
  if (absl::Status status = (*json_file)->Close(); !status.ok()) return status;
  if (absl::Status status = (*jpeg_file)->Publish(); !status.ok()) return status;
  if (absl::Status status = (*json_file)->Publish(); !status.ok()) {
    (*jpeg_file)->Withdraw();  // half a pair is not a sample
    return status;
  }
  return jpeg.size() + json.size();
}

}  // namespace

absl::Status SynthesizeSa1b(shardkit::FileSystem& file_system, const std::string& directory,
                            const SynthSa1bOptions& options, const SynthProgressCallback& progress,
                            const shardkit::Cancellation* cancellation) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (absl::Status status = shardkit::CreateDirectories(file_system, directory); !status.ok()) return status;
  struct Worker {
    Worker(const SynthSa1bOptions& o, const NoiseTiles& t) : maker(o, t) {}
    SynthPairMaker maker;
    std::string jpeg;
    std::string json;
  };
  const NoiseTiles tiles(options.seed);
  const int threads = SynthThreadCount(options.threads, options.count);
  std::vector<std::unique_ptr<Worker>> workers;
  workers.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) workers.push_back(std::make_unique<Worker>(options, tiles));
  const auto make = [&](uint64_t index, int number) -> absl::StatusOr<uint64_t> {
    Worker& worker = *workers[static_cast<size_t>(number)];
    const uint64_t id = options.first_id + index;
    if (absl::Status status = worker.maker.Make(id, &worker.jpeg, &worker.json); !status.ok()) return status;
    return WritePair(file_system, directory, id, options.overwrite, worker.jpeg, worker.json);
  };
  return RunSynth(options.count, threads, make, progress, cancellation);
}

absl::Status SynthesizeFiles(shardkit::FileSystem& file_system, const std::string& directory,
                             const SynthFilesOptions& options, const SynthProgressCallback& progress,
                             const shardkit::Cancellation* cancellation) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (absl::Status status = shardkit::CreateDirectories(file_system, directory); !status.ok()) return status;
  struct Worker {
    std::string directory;  // the last one created
    std::string piece;
  };
  const int threads = SynthThreadCount(options.threads, options.count);
  std::vector<Worker> workers(static_cast<size_t>(threads));
  const std::string suffix = options.extension.empty() ? "" : absl::StrCat(".", options.extension);
  const auto make = [&](uint64_t index, int number) -> absl::StatusOr<uint64_t> {
    Worker& worker = workers[static_cast<size_t>(number)];
    std::string folder = directory;
    if (options.files_per_directory > 0) {
      folder = shardkit::JoinPath(directory, ZeroPadded(index / options.files_per_directory, 6));
      if (folder != worker.directory) {
        if (absl::Status status = file_system.CreateDirectory(folder); !status.ok()) return status;
        worker.directory = folder;
      }
    }
    const auto created =
        PartialFile::Create(file_system, folder, absl::StrCat(ZeroPadded(index, 9), suffix), options.overwrite);
    if (!created.ok()) return created.status();
    PartialFile& file = **created;
    SynthRandom random(options.seed, kFilesStream, index);
    const uint64_t size = FileSize(options, random);
    for (uint64_t written = 0; written < size; written += worker.piece.size()) {
      if (cancellation != nullptr)
        if (absl::Status status = cancellation->Check("making synthetic input"); !status.ok()) return status;
      const size_t length = static_cast<size_t>(std::min<uint64_t>(size - written, kPieceBytes));
      if (options.content == SynthContent::kText) {
        FillText(length, random, &worker.piece);
      } else {
        FillRandom(length, random, &worker.piece);
      }
      if (absl::Status status = file.Append(worker.piece); !status.ok()) return status;
    }
    if (absl::Status status = file.Close(); !status.ok()) return status;
    if (absl::Status status = file.Publish(); !status.ok()) return status;
    return size;
  };
  return RunSynth(options.count, threads, make, progress, cancellation);
}

}  // namespace shardctl
