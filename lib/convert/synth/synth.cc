#include "shardkit/synth.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/synth/synth_random.h"
#include "convert/synth/synth_run.h"
#include "convert/synth/synth_sa1b.h"

namespace shardkit {
namespace {

constexpr uint32_t kLongestSide = 16384;
constexpr uint32_t kMostObjects = 250;  // a picture's map of objects has one byte per pixel
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint64_t kFilesStream = 'F';

absl::Status CheckOptions(const SynthSa1bOptions& options) {
  if (options.threads < 0) return InvalidArgument("synthetic SA-1B: negative number of threads");
  if ((options.width == 0) != (options.height == 0)) {
    return InvalidArgument("synthetic SA-1B: give both width and height, or neither");
  }
  if (std::max(options.width, options.height) > kLongestSide) {
    return InvalidArgument("synthetic SA-1B: ", options.width, " x ", options.height, " pixels; at most ", kLongestSide,
                           " on a side");
  }
  if (options.min_objects > options.max_objects || options.max_objects > kMostObjects) {
    return InvalidArgument("synthetic SA-1B: ", options.min_objects, " to ", options.max_objects,
                           " objects per picture; at most ", kMostObjects);
  }
  if (options.jpeg_quality < 1 || options.jpeg_quality > 100) {
    return InvalidArgument("synthetic SA-1B: JPEG quality ", options.jpeg_quality, "; 1 to 100");
  }
  if (options.count > UINT64_MAX - options.first_id) {
    return InvalidArgument("synthetic SA-1B: image numbers pass 2^64 - 1");
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const SynthFilesOptions& options) {
  if (options.threads < 0) return InvalidArgument("synthetic files: negative number of threads");
  if (options.size_jitter_percent > 100) {
    return InvalidArgument("synthetic files: size jitter of ", options.size_jitter_percent, " %; at most 100");
  }
  if (options.size > uint64_t{1} << 48) {
    return InvalidArgument("synthetic files: ", options.size, " bytes per file; at most 2^48");
  }
  if (options.extension.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return InvalidArgument("synthetic files: \"", options.extension, "\" cannot be a file name's extension");
  }
  return absl::OkStatus();
}

std::string ZeroPadded(uint64_t number, size_t digits) {
  std::string text = StrCat(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

void FillRandom(size_t length, convert::SynthRandom& random, std::string* piece) {
  piece->resize((length + 7) / 8 * 8);
  for (size_t i = 0; i < length; i += 8) StoreLittle(piece->data() + i, random.Next());
  piece->resize(length);
}

// Words of two to four syllables, a few common and many rare, in lines of up to 80 characters.
void FillText(size_t length, convert::SynthRandom& random, std::string* piece) {
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

uint64_t FileSize(const SynthFilesOptions& options, convert::SynthRandom& random) {
  const uint64_t spread =
      options.size / 100 * options.size_jitter_percent + options.size % 100 * options.size_jitter_percent / 100;
  return options.size - spread + random.Next() % (2 * spread + 1);
}

absl::StatusOr<uint64_t> WritePair(FileSystem& file_system, const std::string& directory, uint64_t id, bool overwrite,
                                   std::string_view jpeg, std::string_view json) {
  SHARDKIT_ASSIGN_OR_RETURN(auto jpeg_file,
                            convert::PartialFile::Create(file_system, directory, StrCat("sa_", id, ".jpg"), overwrite));
  SHARDKIT_ASSIGN_OR_RETURN(
      auto json_file, convert::PartialFile::Create(file_system, directory, StrCat("sa_", id, ".json"), overwrite));
  SHARDKIT_RETURN_IF_ERROR(jpeg_file->Append(jpeg));
  SHARDKIT_RETURN_IF_ERROR(jpeg_file->Close());
  SHARDKIT_RETURN_IF_ERROR(json_file->Append(json));
  SHARDKIT_RETURN_IF_ERROR(json_file->Close());
  SHARDKIT_RETURN_IF_ERROR(jpeg_file->Publish());
  if (absl::Status status = json_file->Publish(); !status.ok()) {
    jpeg_file->Withdraw();  // half a pair is not a sample
    return status;
  }
  return jpeg.size() + json.size();
}

}  // namespace

absl::Status SynthesizeSa1b(FileSystem& file_system, const std::string& directory, const SynthSa1bOptions& options,
                            const SynthProgressCallback& progress, const Cancellation* cancellation) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
  SHARDKIT_RETURN_IF_ERROR(CreateDirectories(file_system, directory));
  struct Worker {
    Worker(const SynthSa1bOptions& o, const convert::NoiseTiles& t) : maker(o, t) {}
    convert::SynthPairMaker maker;
    std::string jpeg;
    std::string json;
  };
  const convert::NoiseTiles tiles(options.seed);
  const int threads = convert::SynthThreadCount(options.threads, options.count);
  std::vector<std::unique_ptr<Worker>> workers;
  workers.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) workers.push_back(std::make_unique<Worker>(options, tiles));
  const auto make = [&](uint64_t index, int number) -> absl::StatusOr<uint64_t> {
    Worker& worker = *workers[static_cast<size_t>(number)];
    const uint64_t id = options.first_id + index;
    SHARDKIT_RETURN_IF_ERROR(worker.maker.Make(id, &worker.jpeg, &worker.json));
    return WritePair(file_system, directory, id, options.overwrite, worker.jpeg, worker.json);
  };
  return convert::RunSynth(options.count, threads, make, progress, cancellation);
}

absl::Status SynthesizeFiles(FileSystem& file_system, const std::string& directory, const SynthFilesOptions& options,
                             const SynthProgressCallback& progress, const Cancellation* cancellation) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
  SHARDKIT_RETURN_IF_ERROR(CreateDirectories(file_system, directory));
  struct Worker {
    std::string directory;  // the last one created
    std::string piece;
  };
  const int threads = convert::SynthThreadCount(options.threads, options.count);
  std::vector<Worker> workers(static_cast<size_t>(threads));
  const std::string suffix = options.extension.empty() ? "" : StrCat(".", options.extension);
  const auto make = [&](uint64_t index, int number) -> absl::StatusOr<uint64_t> {
    Worker& worker = workers[static_cast<size_t>(number)];
    std::string folder = directory;
    if (options.files_per_directory > 0) {
      folder = JoinPath(directory, ZeroPadded(index / options.files_per_directory, 6));
      if (folder != worker.directory) {
        SHARDKIT_RETURN_IF_ERROR(file_system.CreateDirectory(folder));
        worker.directory = folder;
      }
    }
    SHARDKIT_ASSIGN_OR_RETURN(
        auto file,
        convert::PartialFile::Create(file_system, folder, StrCat(ZeroPadded(index, 9), suffix), options.overwrite));
    convert::SynthRandom random(options.seed, kFilesStream, index);
    const uint64_t size = FileSize(options, random);
    for (uint64_t written = 0; written < size; written += worker.piece.size()) {
      if (cancellation != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("making synthetic input"));
      const size_t length = static_cast<size_t>(std::min<uint64_t>(size - written, kPieceBytes));
      if (options.content == SynthContent::kText) {
        FillText(length, random, &worker.piece);
      } else {
        FillRandom(length, random, &worker.piece);
      }
      SHARDKIT_RETURN_IF_ERROR(file->Append(worker.piece));
    }
    SHARDKIT_RETURN_IF_ERROR(file->Close());
    SHARDKIT_RETURN_IF_ERROR(file->Publish());
    return size;
  };
  return convert::RunSynth(options.count, threads, make, progress, cancellation);
}

}  // namespace shardkit
