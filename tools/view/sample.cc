#include "view/sample.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "absl/strings/escaping.h"
#include "shardctl/dataset_access.h"
#include "shardctl/describe.h"
#include "shardctl/numbers.h"
#include "shardctl/scalar.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"
#include "view/value.h"

namespace shardctl {
namespace {

using shardkit::Type;

constexpr size_t kShownText = size_t{64} << 10;
constexpr size_t kShownBytes = 512;
constexpr size_t kShownElements = 65536;

// Values of fewer bytes are given in one piece, and parts of them can be asked for, as players do.
constexpr uint64_t kInOnePiece = uint64_t{64} << 20;

struct Front {
  std::string bytes;    // at most kFrontBytes
  uint64_t length = 0;  // of the whole value
  uint64_t checksum = 0;
};

// Of a byte string only the beginning is kept, but all of it is read: its checksums are compared.
absl::StatusOr<std::optional<Front>> ReadFront(const shardkit::DatasetReader& dataset, uint64_t ordinal, size_t column,
                                               shardkit::BlockBuffer* buffer) {
  Front front;
  XXH3_state_t* const hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  absl::StatusOr<bool> present = false;
  const auto take = [&](std::string_view piece) {
    front.bytes.append(piece.substr(0, kFrontBytes - front.bytes.size()));
    front.length += piece.size();
    XXH3_64bits_update(hash, piece.data(), piece.size());
    return absl::OkStatus();
  };
  if (shardkit::IsByteString(dataset.columns()[column])) {
    present = dataset.CopyValue(ordinal, column, take);
  } else {
    const auto value = dataset.ReadValue(ordinal, column, buffer);
    if (!value.ok()) {
      present = value.status();
    } else if (value->has_value()) {
      present = true;
      front.bytes = **value;
      front.length = front.bytes.size();
      XXH3_64bits_update(hash, front.bytes.data(), front.bytes.size());
    }
  }
  front.checksum = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  if (!present.ok()) return present.status();
  if (!*present) return std::nullopt;
  return front;
}

// Seconds since 1970 as a date; the number itself where no calendar has it.
std::string TimeText(Type type, int64_t ticks) {
  const int64_t unit = type == Type::kTimestampS    ? 1
                       : type == Type::kTimestampMs ? 1000
                       : type == Type::kTimestampUs ? 1000000
                                                    : 1000000000;
  int64_t seconds = ticks / unit;
  int64_t rest = ticks % unit;
  if (rest < 0) {
    --seconds;
    rest += unit;
  }
  const std::time_t time = seconds;
  std::tm date{};
  char text[64];
  if (gmtime_r(&time, &date) == nullptr || std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &date) == 0)
    return std::to_string(ticks);
  std::string fraction = unit == 1 ? "" : std::to_string(unit + rest);
  if (!fraction.empty()) fraction[0] = '.';
  return text + fraction + "Z";
}

void DescribeBytes(const Front& front, Json* entry) {
  (*entry)["front_hex"] = absl::BytesToHexString(front.bytes.substr(0, kShownBytes));
  (*entry)["truncated"] = front.length > kShownBytes;
}

// What decoding finds, beyond what the headers say; null for a whole image, and for one that is too large to try.
Json FindDamage(std::string_view bytes, WorkspacePool& pool) {
  const auto info = shardkit::ProbeJpeg(bytes);
  if (!info.ok() || info->coefficient_bytes > WorkspacePool::kDecodeMemory) return nullptr;
  const WorkspacePool::Decoding decoding(pool, info->coefficient_bytes);
  shardkit::JpegDecoder decoder;
  decoder.set_max_memory(WorkspacePool::kDecodeMemory);
  decoder.set_strict(true);
  const absl::Status status = decoder.Check(bytes);
  return status.ok() || absl::IsResourceExhausted(status) ? Json() : Json(std::string(status.message()));
}

void DescribeImage(shardkit::Column column, const Front& front, WorkspacePool& pool, Json* entry) {
  if (column.type == Type::kBytes) column.type = Type::kImage;
  const Json described = DescribeValue(column, front.bytes, front.length).json;
  const std::string type = MediaType(column, front.bytes);
  (*entry)["width"] = described.value("width", Json());
  (*entry)["height"] = described.value("height", Json());
  const Json orientation = described.value("exif_orientation", Json());
  (*entry)["orientation"] = orientation.is_number() ? orientation : Json(0);
  (*entry)["shown"] = type.starts_with("image/");
  std::string detail(shardkit::ImageFormatName(shardkit::DetectImageFormat(front.bytes)));
  if (described.contains("components")) {
    detail += ", " + Counted(described["components"].get<uint64_t>(), "component") + ", " +
              described["process"].get<std::string>();
  }
  if (described.contains("bits")) detail += ", " + std::to_string(described["bits"].get<int>()) + " bits";
  (*entry)["detail"] = detail;
  (*entry)["warning"] = front.length == front.bytes.size() ? FindDamage(front.bytes, pool) : Json();
  if (described.contains("malformed")) {
    (*entry)["error"] = described["malformed"];
    (*entry)["shown"] = false;
    DescribeBytes(front, entry);
  }
}

void DescribeFront(const shardkit::Column& column, const Front& front, WorkspacePool& pool, Json* entry) {
  const std::string kind = ValueKind(column, front.bytes);
  (*entry)["kind"] = kind;
  (*entry)["media_type"] = MediaType(column, front.bytes);
  if (kind == "image") return DescribeImage(column, front, pool, entry);
  if (kind == "bytes") return DescribeBytes(front, entry);
  if (kind == "text" || kind == "json") {
    const std::string_view text = TextFront(front.bytes, kShownText);
    (*entry)["text"] = text;
    (*entry)["truncated"] = text.size() < front.length;
    return;
  }
  if (kind == "time") {
    (*entry)["value"] = TimeText(column.type, ScalarJson(Type::kI64, front.bytes.data()).get<int64_t>());
    return;
  }
  const Json described = DescribeValue(column, front.bytes, front.length).json;
  if (described.contains("malformed")) {
    (*entry)["error"] = described["malformed"];
    return;
  }
  entry->update(described);
  if (kind == "number" || kind == "boolean")
    (*entry)["meaning"] = ClassMeaning(ShownClasses(column), described.value("value", Json()));
}

Json DescribePlace(const Snapshot& snapshot, uint64_t ordinal) {
  const shardkit::DatasetReader& dataset = *snapshot.reader;
  const auto location = dataset.Locate(ordinal);
  if (!location.ok()) return {{"error", std::string(location.status().message())}};
  Json place{{"shard", location->shard}, {"sample_in_shard", location->local}};
  if (const auto shard = dataset.Shard(location->shard); shard.ok()) place["shard_name"] = shard->name;
  const auto open = dataset.OpenShard(location->shard);
  if (!open.ok()) return place;
  const size_t block = (*open)->BlockOfSample(location->local);
  const shardkit::BlockInfo& info = (*open)->blocks()[block];
  place.update({{"block", block},
                {"block_first_sample", info.first_sample},
                {"block_samples", info.sample_count},
                {"block_offset", info.offset},
                {"block_bytes", info.length}});
  return place;
}

// The value, or why there is none.
absl::StatusOr<std::string_view> Present(const absl::StatusOr<std::optional<std::string_view>>& value,
                                         uint64_t ordinal) {
  if (!value.ok()) return value.status();
  if (!value->has_value()) return absl::NotFoundError("sample " + std::to_string(ordinal) + " has no such value");
  return **value;
}

}  // namespace

absl::StatusOr<Json> DescribeSample(const Snapshot& snapshot, uint64_t ordinal, WorkspacePool& pool) {
  const shardkit::DatasetReader& dataset = *snapshot.reader;
  if (ordinal >= snapshot.samples) {
    return absl::OutOfRangeError("there is no sample " + std::to_string(ordinal) + ": there are " +
                                 std::to_string(snapshot.samples));
  }
  Json document{{"ordinal", ordinal},
                {"samples", snapshot.samples},
                {"key", nullptr},
                {"place", DescribePlace(snapshot, ordinal)}};
  Json columns = Json::array();
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const shardkit::Column& column = dataset.columns()[i];
    const std::string kind = ValueKind(column);
    Json entry{
        {"name", column.name}, {"type", TypeText(column)}, {"kind", kind}, {"codec", shardkit::CodecName(column.codec)},
        {"present", false},    {"error", nullptr},         {"length", 0},  {"checksum", nullptr}};
    WorkspacePool::Lease workspace(pool);
    const auto front =
        shardkit::IsKnownCodec(column.codec)
            ? ReadFront(dataset, ordinal, i, &workspace->buffer)
            : absl::UnimplementedError(shardkit::CodecName(column.codec) + ", which this version does not know");
    if (!front.ok()) {
      entry["error"] = std::string(front.status().message());
    } else if (front->has_value()) {
      entry["present"] = true;
      entry["length"] = (*front)->length;
      entry["checksum"] = FormatHex((*front)->checksum);
      DescribeFront(column, **front, pool, &entry);
      if (column.is_key) document["key"] = (*front)->bytes;
    }
    columns.push_back(std::move(entry));
  }
  document["columns"] = std::move(columns);
  return document;
}

absl::StatusOr<Reply> GiveValue(std::shared_ptr<const Snapshot> snapshot, uint64_t ordinal, size_t column,
                                bool download, WorkspacePool& pool) {
  const shardkit::Column described = snapshot->reader->columns()[column];
  Reply reply;
  {
    WorkspacePool::Lease workspace(pool);
    const auto value = snapshot->reader->ReadValue(ordinal, column, &workspace->buffer);
    if (value.ok() || !absl::IsResourceExhausted(value.status())) {
      const auto present = Present(value, ordinal);
      if (!present.ok()) return present.status();
      reply.type = MediaType(described, *present);
      if (present->size() <= kInOnePiece) reply.body = *present;
    }
  }
  if (download || reply.type == "application/octet-stream" || reply.type == "application/json") {
    reply.type = "application/octet-stream";
    reply.file_name = std::to_string(ordinal) + "." + described.name;
  }
  if (reply.body.empty()) {
    reply.stream = [snapshot = std::move(snapshot), ordinal, column](const shardkit::ByteSink& sink) {
      return snapshot->reader->CopyValue(ordinal, column, sink).status();
    };
  }
  return reply;
}

absl::StatusOr<Json> GiveArray(const Snapshot& snapshot, uint64_t ordinal, size_t column, WorkspacePool& pool) {
  const shardkit::Column& described = snapshot.reader->columns()[column];
  if (described.type != Type::kNdarray)
    return absl::InvalidArgumentError("column " + described.name + " has no arrays");
  WorkspacePool::Lease workspace(pool);
  const auto value = Present(snapshot.reader->ReadValue(ordinal, column, &workspace->buffer), ordinal);
  if (!value.ok()) return value.status();
  const auto array = shardkit::ParseNdarray(described, *value);
  if (!array.ok()) return array.status();
  const size_t size = shardkit::ScalarSize(array->dtype);
  const size_t count = array->data.size() / size;
  Json values = Json::array();
  double minimum = INFINITY;
  double maximum = -INFINITY;
  double sum = 0;
  uint64_t numbers = 0;
  uint64_t nan = 0;
  for (size_t i = 0; i < count; ++i) {
    const Json element = ScalarJson(array->dtype, array->data.data() + i * size);
    if (element.is_number()) {
      const double number = element.get<double>();
      minimum = std::min(minimum, number);
      maximum = std::max(maximum, number);
      sum += number;
      ++numbers;
    } else if (element == "nan") {
      ++nan;
    }
    if (i < kShownElements) values.push_back(element);
  }
  Json document{{"dtype", shardkit::TypeName(array->dtype)},
                {"shape", array->shape},
                {"count", count},
                {"values", std::move(values)}};
  document["minimum"] = numbers == 0 ? Json() : JsonNumber(minimum);
  document["maximum"] = numbers == 0 ? Json() : JsonNumber(maximum);
  document["mean"] = numbers == 0 ? Json() : JsonNumber(sum / static_cast<double>(numbers));
  document["nan"] = nan;
  return document;
}

absl::StatusOr<std::string> GiveMasks(const Snapshot& snapshot, uint64_t ordinal, size_t column, WorkspacePool& pool) {
  const shardkit::Column& described = snapshot.reader->columns()[column];
  if (described.type != Type::kRle) return absl::InvalidArgumentError("column " + described.name + " has no masks");
  WorkspacePool::Lease workspace(pool);
  const auto value = Present(snapshot.reader->ReadValue(ordinal, column, &workspace->buffer), ordinal);
  if (!value.ok()) return value.status();
  shardkit::RleList masks;
  if (const absl::Status status = shardkit::ParseRleValue(*value, &masks); !status.ok()) return status;
  std::string words;
  words.reserve(4 * (1 + 3 * masks.size() + masks.runs.size()));
  const auto append = [&](uint64_t word) {
    for (int i = 0; i < 4; ++i) words += static_cast<char>(word >> (8 * i) & 255);
  };
  append(masks.size());
  for (size_t i = 0; i < masks.size(); ++i) {
    append(masks.heights[i]);
    append(masks.widths[i]);
    append(masks[i].runs.size());
  }
  for (const uint32_t run : masks.runs) append(run);
  return words;
}

}  // namespace shardctl
