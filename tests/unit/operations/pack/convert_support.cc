#include "unit/operations/pack/convert_support.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "base/strings.h"

namespace shardkit::test {
namespace {

std::string Environment(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr ? value : "";
}

struct StringWriter {
  std::string* out;
  static la_ssize_t Write(archive*, void* data, const void* bytes, size_t length) {
    static_cast<StringWriter*>(data)->out->append(static_cast<const char*>(bytes), length);
    return static_cast<la_ssize_t>(length);
  }
};

}  // namespace

std::string DataFolder() {
  const std::string folder = Environment("SHARDKIT_TEST_DATA");
  return !folder.empty() && PosixFileSystem()->Stat(folder).ok() ? folder : "";
}

std::string FixtureFolder() { return Environment("SHARDKIT_TEST_FIXTURES"); }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

TemporaryFolder::TemporaryFolder() : path_(testing::TempDir() + "/shardkit_convert_XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
}
TemporaryFolder::~TemporaryFolder() { (void)RemoveTree(*PosixFileSystem(), path_); }

std::string MakeTar(const std::vector<TarItem>& entries, const char* filter, const char* format) {
  std::string out;
  StringWriter sink{&out};
  archive* const writer = archive_write_new();
  if (*filter != '\0') {
    EXPECT_EQ(archive_write_add_filter_by_name(writer, filter), ARCHIVE_OK);
  }
  EXPECT_EQ(archive_write_set_format_by_name(writer, format), ARCHIVE_OK);
  archive_write_set_bytes_in_last_block(writer, 1);  // zeros after a compressed stream are not part of it
  EXPECT_EQ(archive_write_open(writer, &sink, nullptr, StringWriter::Write, nullptr), ARCHIVE_OK);
  for (const TarItem& entry : entries) {
    archive_entry* const header = archive_entry_new();
    archive_entry_set_pathname(header, entry.name.c_str());
    archive_entry_set_perm(header, 0644);
    const auto type = entry.type == 'd'   ? AE_IFDIR
                      : entry.type == 's' ? AE_IFLNK
                      : entry.type == 'p' ? AE_IFIFO
                                          : AE_IFREG;
    archive_entry_set_filetype(header, type);
    if (entry.type == 's') archive_entry_set_symlink(header, entry.link_target.c_str());
    if (entry.type == 'h') archive_entry_set_hardlink(header, entry.link_target.c_str());
    archive_entry_set_size(header, static_cast<la_int64_t>(entry.bytes.size()));
    EXPECT_GE(archive_write_header(writer, header), ARCHIVE_WARN) << archive_error_string(writer);
    EXPECT_GE(archive_write_data(writer, entry.bytes.data(), entry.bytes.size()), 0);
    archive_entry_free(header);
  }
  EXPECT_EQ(archive_write_close(writer), ARCHIVE_OK);
  archive_write_free(writer);
  return out;
}

std::vector<std::string> Loaded::Keys() const {
  std::vector<std::string> keys;
  for (const LoadedSample& sample : samples) keys.push_back(sample.key);
  return keys;
}

Loaded LoadAll(Source& source, size_t max_samples) {
  Loaded loaded;
  SampleBatch batch;
  while (true) {
    auto unit = source.Next(max_samples);
    if (!unit.ok()) {
      loaded.status = unit.status();
      break;
    }
    if (*unit == nullptr) break;
    EXPECT_GE((*unit)->sample_count, 1u);
    EXPECT_LE((*unit)->sample_count, max_samples);
    source.Load(**unit, &batch);
    EXPECT_EQ(batch.samples.size(), batch.indexes.size());
    EXPECT_EQ(batch.samples.size() + batch.failures.size(), (*unit)->sample_count);
    for (size_t i = 0; i < batch.samples.size(); ++i) {
      LoadedSample sample;
      sample.position = loaded.positions + batch.indexes[i];
      sample.key = std::string(batch.samples[i].key);
      for (const Field& field : batch.samples[i].fields) {
        LoadedField& out = sample.fields[field.column->name];
        out.type = field.column->type;
        out.codec = field.column->codec;
        out.nullable = field.column->nullable;
        out.bytes = std::string(field.value.bytes);
        if (field.value.file) {
          out.file = true;
          out.bytes.resize(field.value.file->size());
          EXPECT_TRUE(field.value.file->ReadAt(0, out.bytes).ok());
        }
      }
      EXPECT_EQ(sample.fields.size(), batch.samples[i].fields.size()) << "a column twice";
      loaded.samples.push_back(std::move(sample));
    }
    for (const SampleFailure& failure : batch.failures) {
      loaded.failures.push_back({loaded.positions + failure.index, failure.key, failure.status});
    }
    loaded.positions += (*unit)->sample_count;
  }
  return loaded;
}

Loaded LoadAll(FileSystem* file_system, std::string_view kind, const std::vector<std::string>& inputs,
               SourceOptions options) {
  options.file_system = file_system;
  auto source = OpenSource(kind, inputs, options);
  if (!source.ok()) {
    Loaded loaded;
    loaded.status = source.status();
    return loaded;
  }
  const auto count = (*source)->Count();
  Loaded loaded = LoadAll(**source);
  if (loaded.status.ok()) {
    EXPECT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(count.value_or(0), loaded.positions);
  }
  return loaded;
}

const Field* FindField(const std::vector<Field>& fields, std::string_view name) {
  for (const Field& field : fields) {
    if (field.column->name == name) return &field;
  }
  return nullptr;
}

operations::Sa1bValues ValuesOf(const std::vector<Field>& fields) {
  const auto get = [&](std::string_view name) {
    const Field* const field = FindField(fields, name);
    return field != nullptr ? field->value.bytes : std::string_view();
  };
  operations::Sa1bValues values;
  values.image_id = get("image_id");
  values.width = get("width");
  values.height = get("height");
  values.file_name = get("file_name");
  values.masks = get("masks");
  values.annotation_id = get("annotation_id");
  values.area = get("area");
  values.bbox = get("bbox");
  values.predicted_iou = get("predicted_iou");
  values.stability_score = get("stability_score");
  values.crop_box = get("crop_box");
  values.point_coords = get("point_coords");
  values.source_json = get("source_json");
  return values;
}

std::string SmallSa1bJson(int annotations, int image_id) {
  std::string json = StrCat(R"({"image": {"image_id": )", image_id, R"(, "width": 6, "height": 4, "file_name": "sa_)",
                            image_id, R"(.jpg"}, "annotations": [)");
  for (int i = 0; i < annotations; ++i) {
    // Runs 5, 3, 16.
    json +=
        StrCat(i == 0 ? "" : ", ", R"({"bbox": [1.0, 1.0, 0.0, 2.0], "area": 3, "segmentation": )",
               R"({"size": [4, 6], "counts": "53`0"}, "predicted_iou": 0.953125, "point_coords": [[1.5, 2.0]], )",
               R"("crop_box": [0.0, 0.0, 6.0, 4.0], "id": )", 100 + i, R"(, "stability_score": 0.9742233753204346})");
  }
  return json + "]}";
}

}  // namespace shardkit::test
