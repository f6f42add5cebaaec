#include "foreign/mds/mds_shard_writer.h"

#include <charconv>
#include <utility>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "codec/zstd.h"
#include "foreign/mds/mds_layout.h"
#include "foreign/mds/mds_values.h"

namespace shardkit::foreign {
namespace {

constexpr std::string_view kZstd = "zstd";

// Describes a file that consists of the pieces, one after another.
absl::StatusOr<MdsFile> Describe(std::string name, std::span<const std::string> hashes,
                                 std::span<const std::string_view> pieces) {
  MdsFile file;
  file.name = std::move(name);
  for (const std::string_view piece : pieces) file.bytes += piece.size();
  for (const std::string& algorithm : hashes) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<NamedHash> hash, NamedHash::Create(algorithm));
    for (const std::string_view piece : pieces) hash->Update(piece);
    file.hashes.emplace_back(algorithm, hash->HexDigest());
  }
  return file;
}

absl::Status AppendBytes(const Column& column, const MdsColumn& encoding, std::string_view bytes, std::string* out) {
  if (column.type == Type::kNdarray || encoding.how.form != MdsForm::kPlain) {
    const absl::Status status = AppendToMds(column, encoding.how.form, bytes, out);
    // The caller made the value, so a wrong one is InvalidArgument.
    return absl::IsDataLoss(status) ? InvalidArgument("column \"", column.name, "\": ", ToStd(status.message()))
                                    : status;
  }
  if (encoding.size && bytes.size() != *encoding.size) {
    return InvalidArgument("column \"", column.name, "\": a value of ", bytes.size(), " bytes; those of encoding ",
                           encoding.encoding, " have ", *encoding.size);
  }
  out->append(bytes);
  return absl::OkStatus();
}

absl::Status AppendValue(const Column& column, const MdsColumn& encoding, const Value& value, std::string* out) {
  if (!value.file) return AppendBytes(column, encoding, value.bytes, out);
  const size_t begin = out->size();
  out->resize(begin + value.file->size());
  SHARDKIT_RETURN_IF_ERROR(value.file->ReadAt(0, {out->data() + begin, static_cast<size_t>(value.file->size())}));
  if (IsByteString(column.type) && encoding.how.form == MdsForm::kPlain) return absl::OkStatus();
  const std::string bytes = out->substr(begin);
  out->resize(begin);
  return AppendBytes(column, encoding, bytes, out);
}

// Checks all values before any of them is read or copied.
absl::Status CheckLengths(std::span<const Column> columns, std::span<const std::optional<Value>> values) {
  uint64_t all = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!values[i]) return InvalidArgument("column \"", columns[i].name, "\": is absent, and MDS has no absent values");
    if (!CheckedAdd(all, values[i]->length(), &all)) all = UINT64_MAX;
    if (all > kMaxMdsShardBytes) {
      return InvalidArgument("column \"", columns[i].name, "\": a value of ", values[i]->length(),
                             " bytes: an MDS shard, which holds whole samples, has at most ", kMaxMdsShardBytes);
    }
  }
  return absl::OkStatus();
}

absl::Status AppendValues(std::span<const Column> columns, std::span<const MdsColumn> encodings,
                          std::span<const std::optional<Value>> values, std::string* out) {
  SHARDKIT_RETURN_IF_ERROR(CheckLengths(columns, values));
  const size_t begin = out->size();
  out->resize(begin + MdsHeadLength(encodings));
  size_t length_place = begin;
  for (size_t i = 0; i < columns.size(); ++i) {
    const size_t value_begin = out->size();
    SHARDKIT_RETURN_IF_ERROR(AppendValue(columns[i], encodings[i], *values[i], out));
    if (encodings[i].size) continue;
    // Fits: CheckLengths has checked the value's length, and only numbers get longer.
    StoreLittle(out->data() + length_place, static_cast<uint32_t>(out->size() - value_begin));
    length_place += sizeof(uint32_t);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendMdsSample(std::span<const Column> columns, std::span<const MdsColumn> encodings,
                             std::span<const std::optional<Value>> values, std::string* out) {
  const size_t begin = out->size();
  absl::Status status = AppendValues(columns, encodings, values, out);
  if (!status.ok()) out->resize(begin);
  return status;
}

uint64_t MdsShardLength(uint64_t header_bytes, uint64_t samples, uint64_t sample_bytes) {
  return sizeof(uint32_t) * (samples + 2) + header_bytes + sample_bytes;
}

absl::StatusOr<EncodedMdsShard> EncodeMdsShard(const MdsSettings& settings, std::string_view header, MdsSamples samples,
                                               uint64_t number) {
  EncodedMdsShard shard;
  std::string& head = shard.head;
  AppendLittle(head, static_cast<uint32_t>(samples.ends.size()));
  const uint64_t first = MdsShardLength(header.size(), samples.ends.size(), 0);
  if (first + samples.bytes.size() > kMaxMdsShardBytes) {
    return InvalidArgument("an MDS shard of ", first + samples.bytes.size(),
                           " bytes: its offsets have 32 bits; choose smaller shards");
  }
  head.reserve(first);
  AppendLittle(head, static_cast<uint32_t>(first));
  for (const uint64_t end : samples.ends) AppendLittle(head, static_cast<uint32_t>(first + end));
  head += header;

  shard.described.samples = samples.ends.size();
  shard.described.compression = settings.compression;
  const std::string_view pieces[] = {head, samples.bytes};
  SHARDKIT_ASSIGN_OR_RETURN(shard.described.raw, Describe(MdsShardName(number), settings.hashes, pieces));
  if (settings.compression.empty()) {
    shard.body = std::move(samples.bytes);
    return shard;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const int level, ParseMdsCompression(settings.compression));
  const std::string raw = std::exchange(head, {}) + std::exchange(samples.bytes, {});
  codec::ZstdCompressor compressor;
  SHARDKIT_RETURN_IF_ERROR(compressor.Compress(raw, level, nullptr, &shard.body));
  const std::string_view compressed[] = {shard.body};
  SHARDKIT_ASSIGN_OR_RETURN(shard.described.zip,
                            Describe(StrCat(shard.described.raw.name, ".zstd"), settings.hashes, compressed));
  return shard;
}

absl::StatusOr<int> ParseMdsCompression(std::string_view compression) {
  int level = codec::kDefaultZstdLevel;
  if (compression != kZstd) {
    const std::string_view digits = compression.starts_with("zstd:") ? compression.substr(5) : std::string_view();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), level);
    // mosaicml-streaming accepts levels from 1 on.
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || level < 1 ||
        level > codec::MaxZstdLevel()) {
      return InvalidArgument("compression \"", compression, "\": MDS is written with \"zstd\", \"zstd:LEVEL\" (1 to ",
                             codec::MaxZstdLevel(), ") or none");
    }
  }
  return level;
}

}  // namespace shardkit::foreign
