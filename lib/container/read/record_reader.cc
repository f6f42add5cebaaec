#include "container/read/record_reader.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/block_buffer.h"
#include "container/read/decompression_limit.h"
#include "container/read/value_file.h"
#include "format/chunk.h"
#include "io/read_again.h"

namespace shardkit::container {
namespace {

// `begin` is the record's place in the file.
absl::StatusOr<std::string_view> OpenRecord(const RandomAccessFile& file, const ReadOptions& options,
                                            std::string_view record, uint64_t begin) {
  if (options.verify == Verify::kNever) {
    if (record.size() < format::kValueChecksumBytes)
      return DataLoss(file.path(), ": record at byte ", begin, " is too short");
    return record.substr(0, record.size() - format::kValueChecksumBytes);
  }
  absl::StatusOr<std::string_view> bytes = format::OpenRecord(record);
  if (!bytes.ok()) return Annotate(bytes.status(), StrCat(file.path(), ": byte ", begin));
  return bytes;
}

absl::Status CheckRecordPlace(const RandomAccessFile& file, uint64_t begin, uint64_t end) {
  if (begin <= end && RangeWithin(begin, end - begin, file.size())) [[likely]]
    return absl::OkStatus();
  return DataLoss(file.path(), ": a record from byte ", begin, " to ", end,
                  " does not lie in the file; rebuild the index");
}

}  // namespace

absl::Status ReadOfListed(const absl::Status& status) {
  if (!absl::IsOutOfRange(status)) return status;
  return At(DataLoss(ToStd(status.message()), ": it was cut since it was opened; copy it again"), PlaceOf(status));
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRecordAt(std::shared_ptr<const RandomAccessFile> file,
                                                               uint64_t begin, uint64_t end) {
  SHARDKIT_RETURN_IF_ERROR(CheckRecordPlace(*file, begin, end));
  if (end - begin < format::kValueChecksumBytes) {
    return DataLoss(file->path(), ": record at byte ", begin, " is too short");
  }
  return std::make_unique<ValueFile>(std::move(file), begin, end - begin - format::kValueChecksumBytes);
}

absl::StatusOr<std::string_view> ReadRecordAt(const RandomAccessFile& file, const ReadOptions& options, uint64_t begin,
                                              uint64_t end, BlockBuffer* buffer) {
  buffer->state().shown = &file;
  SHARDKIT_RETURN_IF_ERROR(CheckRecordPlace(file, begin, end));
  if (const auto mapped = file.Mapped()) {
    const auto value = OpenRecord(file, options, mapped->substr(begin, end - begin), begin);
    SHARDKIT_RETURN_IF_ERROR(file.CheckMapped());
    return value;
  }
  SHARDKIT_RETURN_IF_ERROR(Annotate(CheckBlockMemory(options, end - begin, "the value has"), file.path()));
  Buffer& memory = buffer->state().record;
  memory.resize_discard(end - begin);
  const auto read = [&]() -> absl::StatusOr<std::string_view> {
    SHARDKIT_RETURN_IF_ERROR(ReadOfListed(file.ReadAt(begin, {memory.data(), memory.size()})));
    return OpenRecord(file, options, memory.view(), begin);
  };
  return io::RetryIfDamaged(file, read);
}

absl::StatusOr<std::unique_ptr<RecordsRead>> RecordsRead::Start(const RandomAccessFile& file,
                                                                const ReadOptions& options,
                                                                std::vector<std::pair<uint64_t, uint64_t>> places,
                                                                BlockBuffer* buffer) {
  std::unique_ptr<RecordsRead> started(new RecordsRead(file, options, std::move(places), buffer));
  if (file.Mapped()) return started;
  uint64_t total = 0;
  for (const auto& [begin, end] : started->places_) {
    SHARDKIT_RETURN_IF_ERROR(CheckRecordPlace(file, begin, end));
    total += end - begin + 2 * Buffer::kAlignment;
    SHARDKIT_RETURN_IF_ERROR(Annotate(CheckBlockMemory(options, total, "the values have"), file.path()));
  }
  // Each record is read from the aligned address before it, so that direct I/O needs no copy.
  const uint64_t alignment = file.alignment();
  Buffer& memory = buffer->state().record;
  memory.resize_discard(total);
  uint64_t position = 0;
  for (const auto& [begin, end] : started->places_) {
    const uint64_t from = begin / alignment * alignment;
    const uint64_t to = std::min(RoundUp(end, alignment), std::max(end, file.size()));
    started->requests_.push_back({from, {memory.data() + position, to - from}});
    started->records_.push_back(memory.data() + position + (begin - from));
    position += RoundUp(to - from, std::max<uint64_t>(alignment, 8));
  }
  started->read_.emplace(file, started->requests_);
  return started;
}

absl::Status RecordsRead::Finish(std::span<std::string_view> values) {
  if (read_) SHARDKIT_RETURN_IF_ERROR(ReadOfListed(read_->Wait()));
  for (size_t i = 0; i < places_.size(); ++i) {
    const uint64_t begin = places_[i].first, end = places_[i].second;
    if (read_) {
      const auto open = [&] { return OpenRecord(file_, options_, {records_[i], end - begin}, begin); };
      auto value = open();
      if (absl::IsDataLoss(value.status()) && file_.hints().worth_reading_again) {
        const io::BypassCaches again;
        SHARDKIT_RETURN_IF_ERROR(ReadOfListed(file_.ReadAt(requests_[i].offset, requests_[i].buffer)));
        value = open();
      }
      SHARDKIT_ASSIGN_OR_RETURN(values[i], value);
    } else {
      SHARDKIT_ASSIGN_OR_RETURN(values[i], ReadRecordAt(file_, options_, begin, end, buffer_));
    }
  }
  return absl::OkStatus();
}

}  // namespace shardkit::container
