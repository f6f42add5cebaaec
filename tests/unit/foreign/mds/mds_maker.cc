#include "unit/foreign/mds/mds_maker.h"

#include <random>

#include "foreign/mds/mds_directory.h"
#include "support/read_in_parts.h"

namespace shardkit::test {
namespace {

std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

template <typename Write>
std::string List(const MdsFields& fields, Write write) {
  std::string text;
  for (const MdsField& field : fields) text += (text.empty() ? "" : ", ") + write(field);
  return "[" + text + "]";
}

std::string FileText(const std::string& name, uint64_t bytes,
                     const std::vector<std::pair<std::string, std::string>>& hashes) {
  std::string list;
  for (const auto& [hash, digits] : hashes) list += (list.empty() ? "" : ", ") + Quoted(hash) + ": " + Quoted(digits);
  return "{\"basename\": " + Quoted(name) + ", \"bytes\": " + std::to_string(bytes) + ", \"hashes\": {" + list + "}}";
}

// The members that index and header share, sorted, up to the first member that only the index has.
std::string Description(const MdsFields& fields, const std::string& compression) {
  return "\"column_encodings\": " + List(fields, [](const MdsField& field) { return Quoted(field.encoding); }) +
         ", \"column_names\": " + List(fields, [](const MdsField& field) { return Quoted(field.name); }) +
         ", \"column_sizes\": " +
         List(fields, [](const MdsField& field) { return field.size ? std::to_string(*field.size) : "null"; }) +
         ", \"compression\": " + (compression.empty() ? "null" : Quoted(compression)) +
         ", \"format\": \"mds\", \"hashes\": []";
}

}  // namespace

std::string MdsHeader(const MdsFields& fields) {
  return "{" + Description(fields, "") + ", \"size_limit\": 67108864, \"version\": 2}";
}

std::string MdsShardBytes(const MdsFields& fields, const std::vector<MdsRow>& rows) {
  std::string samples;
  std::vector<uint32_t> ends;
  for (const MdsRow& row : rows) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!fields[i].size) samples += Little(static_cast<uint32_t>(row[i].size()));
    }
    for (const std::string& payload : row) samples += payload;
    ends.push_back(static_cast<uint32_t>(samples.size()));
  }
  const std::string header = MdsHeader(fields);
  const uint32_t begin = static_cast<uint32_t>(4 + 4 * (rows.size() + 1) + header.size());
  std::string bytes = Little(static_cast<uint32_t>(rows.size())) + Little(begin);
  for (const uint32_t end : ends) bytes += Little(begin + end);
  return bytes + header + samples;
}

std::string MdsIndexText(const MdsFields& fields, const std::vector<MdsListed>& shards) {
  std::string list;
  for (const MdsListed& shard : shards) {
    list += (list.empty() ? "{" : ", {") + Description(fields, shard.compression) +
            ", \"raw_data\": " + FileText(shard.name, shard.bytes, shard.raw_hashes) +
            ", \"samples\": " + std::to_string(shard.samples) +
            ", \"size_limit\": 67108864, \"version\": 2, \"zip_data\": " +
            (shard.compression.empty() ? "null" : FileText(shard.zip_name, shard.zip_bytes, shard.zip_hashes)) + "}";
  }
  return "{\"shards\": [" + list + "], \"version\": 2}";
}

Tree MdsTree(const MdsFields& fields, const std::vector<MdsRow>& rows, size_t shard_samples) {
  Tree tree;
  std::vector<MdsListed> shards;
  for (size_t begin = 0; begin < rows.size(); begin += shard_samples) {
    const size_t end = std::min(rows.size(), begin + shard_samples);
    const std::string number = std::to_string(shards.size());
    const std::string name = "shard." + std::string(5 - number.size(), '0') + number + ".mds";
    tree[name] = MdsShardBytes(
        fields, {rows.begin() + static_cast<ptrdiff_t>(begin), rows.begin() + static_cast<ptrdiff_t>(end)});
    shards.push_back({.name = name, .bytes = tree[name].size(), .samples = end - begin});
  }
  tree["index.json"] = MdsIndexText(fields, shards);
  return tree;
}

std::string MdsArray(const std::vector<uint64_t>& shape, int width, std::string_view elements) {
  std::string bytes(1, static_cast<char>(shape.size() << 2 | static_cast<size_t>(width)));
  for (const uint64_t dimension : shape) bytes += Little(dimension).substr(0, size_t{1} << width);
  return bytes + std::string(elements);
}

std::string OurArray(const std::vector<uint64_t>& shape, std::string_view elements) {
  std::string bytes = Little(uint64_t{shape.size()});
  for (const uint64_t dimension : shape) bytes += Little(dimension);
  bytes += elements;
  return bytes + std::string((8 - elements.size() % 8) % 8, '\0');
}

std::string MdsPixels(uint32_t width, uint32_t height, std::string_view mode, std::string_view pixels) {
  return Little(width) + Little(height) + Little(static_cast<uint32_t>(mode.size())) + std::string(mode) +
         std::string(pixels);
}

std::string GrayTiff(uint32_t width, uint32_t height, std::string_view pixels) {
  std::string file = std::string("II*\0\x08\0\0\0", 8) + Little(uint16_t{9});
  const auto entry = [&](uint16_t tag, uint16_t type, uint32_t value) {
    file += Little(tag) + Little(type) + Little(uint32_t{1}) + Little(value);
  };
  entry(256, 4, width);
  entry(257, 4, height);
  entry(258, 3, 8);
  entry(259, 3, 1);
  entry(262, 3, 1);
  entry(273, 4, 122);
  entry(277, 3, 1);
  entry(278, 4, height);
  entry(279, 4, static_cast<uint32_t>(pixels.size()));
  return file + std::string(4, '\0') + std::string(pixels);
}

MdsFields EveryField() {
  return {{"a bytes", "bytes", {}},
          {"b str", "str", {}},
          {"c int", "int", 8},
          {"d uint8", "uint8", 1},
          {"e uint16", "uint16", 2},
          {"f uint32", "uint32", 4},
          {"g uint64", "uint64", 8},
          {"h int8", "int8", 1},
          {"i int16", "int16", 2},
          {"j int32", "int32", 4},
          {"k int64", "int64", 8},
          {"l float16", "float16", 2},
          {"m float32", "float32", 4},
          {"n float64", "float64", 8},
          {"o str_int", "str_int", {}},
          {"p str_float", "str_float", {}},
          {"q str_decimal", "str_decimal", {}},
          {"r json", "json", {}},
          {"s jpeg", "jpeg", {}},
          {"t png", "png", {}},
          {"u pil", "pil", {}},
          {"v jpeg_array", "jpeg_array", {}},
          {"w jpegarray", "jpegarray", {}},
          {"x list", "list[png]", {}},
          {"y ndarray", "ndarray", {}},
          {"z ndarray f32", "ndarray:float32", {}},
          {"za ndarray i16", "ndarray:int16:2,3", 12},
          {"zb deep", "ndarray:uint8:1,1,1,1,1,1,1,1,2", 2}};
}

std::vector<MdsRow> EveryRow(size_t count) {
  std::mt19937_64 random(count);
  std::vector<MdsRow> rows(count);
  const auto noise = [&](size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  for (MdsRow& row : rows) {
    for (const MdsField& field : EveryField()) {
      if (field.encoding == "ndarray:float32") {
        const uint64_t height = 1 + random() % 3, width = 1 + random() % 300;
        row.push_back(
            MdsArray({height, width}, width > 255 ? 1 : static_cast<int>(random() % 4), noise(4 * height * width)));
      } else if (field.encoding == "ndarray") {
        row.push_back("\x11" + MdsArray({1 + random() % 3}, 0, ""));  // int16
        row.back() += noise(size_t{2} * static_cast<uint8_t>(row.back().back()));
      } else if (field.encoding == "str_int") {
        row.push_back(std::to_string(static_cast<int64_t>(random())));
      } else if (field.encoding == "str_float") {
        row.push_back(std::to_string(random() % 1000) + ".25");
      } else if (field.encoding == "pil") {
        row.push_back(MdsPixels(3, 2, "L", noise(6)));
      } else {
        // Bytes that are neither UTF-8 nor a picture, but are allowed in every encoding.
        row.push_back(noise(field.size ? *field.size : random() % 50));
      }
    }
  }
  return rows;
}

std::string Expected(const MdsField& field, const std::string& stored) {
  if (field.encoding == "str_int") return Little(int64_t{std::stoll(stored)});
  if (field.encoding == "str_float") return Little(std::stod(stored));
  if (field.encoding == "pil") return GrayTiff(3, 2, std::string_view(stored).substr(13));
  if (field.encoding != "ndarray:float32" && field.encoding != "ndarray") return stored;
  const std::string payload = stored.substr(field.encoding == "ndarray" ? 1 : 0);
  const size_t rank = static_cast<uint8_t>(payload[0]) >> 2, width = size_t{1} << (payload[0] & 3);
  std::vector<uint64_t> shape(rank);
  for (size_t i = 0; i < rank; ++i) {
    for (size_t byte = 0; byte < width; ++byte) {
      shape[i] |= uint64_t{static_cast<uint8_t>(payload[1 + i * width + byte])} << (8 * byte);
    }
  }
  return OurArray(shape, std::string_view(payload).substr(1 + rank * width));
}

MdsFields TextFields() { return {{"id", "int", 8}, {"text", "str", {}}}; }

std::vector<MdsRow> TextRows(size_t count) {
  std::vector<MdsRow> rows;
  for (size_t i = 0; i < count; ++i)
    rows.push_back({Little(int64_t(i)), "sample " + std::to_string(i) + std::string(i % 7, '.')});
  return rows;
}

void ExpectRows(const DatasetReader& dataset, const MdsFields& fields, const std::vector<MdsRow>& rows) {
  ASSERT_EQ(dataset.sample_count(), rows.size());
  ASSERT_EQ(dataset.columns().size(), fields.size());
  const auto scanner = dataset.Scan();
  ASSERT_TRUE(scanner.ok()) << scanner.status();
  uint64_t next = 0;
  while (true) {
    const auto block = (*scanner)->Next();
    ASSERT_TRUE(block.ok()) << block.status();
    if (*block == nullptr) break;
    ASSERT_EQ((*block)->first_sample(), next);
    for (uint32_t i = 0; i < (*block)->view().sample_count(); ++i, ++next) {
      for (size_t c = 0; c < fields.size(); ++c) {
        ASSERT_EQ((*block)->view().column(c).value(i), Expected(fields[c], rows[next][c]))
            << fields[c].name << " of sample " << next;
      }
    }
  }
  EXPECT_EQ(next, rows.size());
  BlockBuffer buffer;
  for (uint64_t i = 0; i < rows.size(); i += 1 + rows.size() / 50) {
    for (size_t c = 0; c < fields.size(); ++c) {
      const std::string expected = Expected(fields[c], rows[i][c]);
      const auto value = dataset.ReadValue(i, c, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      ASSERT_EQ(*value, expected) << fields[c].name << " of sample " << i;
      std::string copied;
      const auto present = dataset.CopyValue(i, c, [&](std::string_view piece) {
        copied += piece;
        return absl::OkStatus();
      });
      ASSERT_TRUE(present.ok() && *present) << present.status();
      ASSERT_EQ(copied, expected) << fields[c].name << " of sample " << i;
      const auto parts = test::ReadInParts(dataset.OpenValue(i, c));
      ASSERT_TRUE(parts.ok()) << parts.status();
      ASSERT_EQ(*parts, expected) << fields[c].name << " of sample " << i;
    }
  }
}

absl::Status CheckMdsHashes(FileSystem& files, const std::string& path) {
  const auto directory = foreign::ReadMdsIndex(files, path.ends_with(".json") ? path : JoinPath(path, "index.json"));
  if (!directory.ok()) return directory.status();
  absl::Status unknown;
  for (const foreign::MdsShard& shard : directory->index.shards) {
    const absl::Status status = foreign::CheckMdsShardHashes(files, directory->path, shard, ReadOptions(), &unknown);
    if (!status.ok()) return status;
  }
  return unknown;
}

absl::Status ReadEverything(FileSystem& files, const std::string& path, const DatasetOptions& options) {
  const auto dataset = DatasetReader::Open(files, path, options);
  if (!dataset.ok()) return dataset.status();
  absl::Status first;
  const auto note = [&](const absl::Status& status) {
    if (first.ok()) first = status;
  };
  BlockBuffer buffer;
  uint64_t sum = 0;  // the sum of all bytes, so that all bytes are read
  const auto look = [&](std::string_view value) {
    for (const char byte : value) sum += static_cast<uint8_t>(byte);
  };
  for (size_t shard = 0; shard < (*dataset)->shard_count(); ++shard) {
    note((*dataset)->OpenShard(shard).status());
    for (uint64_t block = 0; block < (*dataset)->Shard(shard)->blocks; ++block) {
      BlockView view;
      const absl::Status status = (*dataset)->ReadBlock(shard, block, &buffer, &view);
      note(status);
      if (!status.ok()) continue;
      for (size_t c = 0; c < view.column_count(); ++c) {
        for (uint32_t i = 0; i < view.sample_count(); ++i) look(*view.column(c).value(i));
      }
    }
  }
  for (uint64_t i = 0; i < (*dataset)->sample_count() && i < 100; ++i) {
    for (size_t c = 0; c < (*dataset)->columns().size(); ++c) {
      const auto value = (*dataset)->ReadValue(i, c, &buffer);
      note(value.status());
      if (value.ok()) look(**value);
      note((*dataset)
               ->CopyValue(i, c,
                           [&](std::string_view piece) {
                             look(piece);
                             return absl::OkStatus();
                           })
               .status());
    }
  }
  volatile uint64_t looked_at = sum;
  (void)looked_at;
  return first;
}

}  // namespace shardkit::test
