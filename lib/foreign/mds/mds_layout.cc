#include "foreign/mds/mds_layout.h"

#include "base/endian.h"
#include "base/errors.h"

namespace shardkit::foreign {

absl::StatusOr<uint64_t> MdsTableLength(std::string_view head, uint64_t file_length) {
  if (head.size() < kMdsCountBytes) {
    return DataLoss("header: the file has ", file_length, " bytes, too few for an MDS shard");
  }
  const uint64_t count = LoadLittle<uint32_t>(head.data());
  const uint64_t length = kMdsCountBytes + 4 * (count + 1);
  if (length > file_length) {
    return DataLoss("header: byte 0 announces ", count, " samples, but the file ends at byte ", file_length,
                    " within the table of their offsets");
  }
  return length;
}

absl::StatusOr<std::vector<uint32_t>> DecodeMdsOffsets(std::string_view table, uint64_t file_length) {
  std::vector<uint32_t> offsets((table.size() - kMdsCountBytes) / 4);
  for (size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = LoadLittle<uint32_t>(table.data() + kMdsCountBytes + 4 * i);
    const auto place = [&] { return StrCat("header: byte ", kMdsCountBytes + 4 * i, ": "); };
    if (i == 0 && offsets[0] < table.size()) {
      return DataLoss(place(), "the first sample would begin at byte ", offsets[0],
                      ", within the table of offsets, which ends at ", table.size());
    }
    if (i > 0 && offsets[i] < offsets[i - 1]) {
      return DataLoss(
          place(), "sample ", i - 1, " would end at byte ", offsets[i], ", before it begins at ", offsets[i - 1],
          file_length > UINT32_MAX ? "; offsets of 32 bits cannot address this file, so its samples are lost" : "");
    }
    if (offsets[i] > file_length) {
      return DataLoss(place(), i == 0 ? StrCat("the first sample would begin") : StrCat("sample ", i - 1, " would end"),
                      " at byte ", offsets[i], ", but the file ends at byte ", file_length);
    }
  }
  return offsets;
}

uint64_t MdsHeadLength(std::span<const MdsColumn> columns) {
  uint64_t length = 0;
  for (const MdsColumn& column : columns) length += column.size ? 0 : 4;
  return length;
}

absl::Status SplitMdsSample(std::span<const MdsColumn> columns, std::string_view head, uint64_t length,
                            std::span<uint64_t> places) {
  const uint64_t head_length = MdsHeadLength(columns);
  if (head.size() < head_length || length < head_length) {
    return DataLoss("it has ", length, " bytes, fewer than the lengths of its values take");
  }
  uint64_t place = head_length, next = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    uint64_t size;
    if (columns[i].size) {
      size = *columns[i].size;
    } else {
      size = LoadLittle<uint32_t>(head.data() + next);
      next += 4;
    }
    places[i] = place;
    // Cannot overflow: each size is below 2^32, and there are at most kMaxColumns columns.
    place += size;
    if (place > length) {
      return DataLoss("column \"", columns[i].name, "\": a value of ", size, " bytes at byte ", places[i],
                      " of the sample, which ends at ", length);
    }
  }
  places[columns.size()] = place;
  if (place != length) return DataLoss(length - place, " bytes follow its last value");
  return absl::OkStatus();
}

}  // namespace shardkit::foreign
