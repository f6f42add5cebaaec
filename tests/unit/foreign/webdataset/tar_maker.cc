#include "unit/foreign/webdataset/tar_maker.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <regex>

#include "dataset/dataset_support.h"
#include "support/read_in_parts.h"

namespace shardkit::test {

std::string TarHeaderBlock(std::string_view name, uint64_t size, char type) {
  std::string block(512, '\0');
  std::memcpy(block.data(), name.data(), name.size());
  std::memcpy(block.data() + 100, "0000644", 7);
  std::memcpy(block.data() + 108, "0000000", 7);
  std::memcpy(block.data() + 116, "0000000", 7);
  if (size < uint64_t{1} << 33) {
    std::snprintf(block.data() + 124, 12, "%011llo", static_cast<unsigned long long>(size));
  } else {
    block[124] = static_cast<char>(0x80);
    for (int i = 0; i < 8; ++i) block[135 - static_cast<size_t>(i)] = static_cast<char>(size >> (8 * i));
  }
  std::memcpy(block.data() + 136, "00000000000", 11);
  block[156] = type;
  std::memcpy(block.data() + 257,
              "ustar\0"
              "00",
              8);
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<uint8_t>(c);
  std::snprintf(block.data() + 148, 8, "%06o", sum);
  return block;
}

std::string MakeTar(const std::vector<TarMember>& members) {
  std::string tar;
  for (const TarMember& member : members) {
    tar += TarHeaderBlock(member.name, member.data.size(), member.type);
    tar += member.data;
    tar.resize((tar.size() + 511) / 512 * 512);
  }
  tar.resize(tar.size() + 1024);
  return tar;
}

std::string WriteTar(const std::vector<TarMember>& members, const std::string& format, const std::string& filter) {
  std::string tar;
  archive* const writer = archive_write_new();
  EXPECT_EQ(archive_write_set_format_by_name(writer, format.c_str()), ARCHIVE_OK) << archive_error_string(writer);
  if (filter != "none") {
    EXPECT_EQ(archive_write_add_filter_by_name(writer, filter.c_str()), ARCHIVE_OK);
  }
  // GNU's form stores the bytes unchanged. For a pax header libarchive would convert them from the locale's encoding.
  if (format == "pax") {
    archive_write_set_options(writer, "hdrcharset=UTF-8");
  }
  archive_write_set_bytes_in_last_block(writer, 1);
  archive_write_open2(
      writer, &tar, nullptr,
      [](archive*, void* to, const void* bytes, size_t length) -> la_ssize_t {
        static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), length);
        return static_cast<la_ssize_t>(length);
      },
      nullptr, nullptr);
  for (const TarMember& member : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_filetype(entry, member.type == '5' ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(member.data.size()));
    EXPECT_GE(archive_write_header(writer, entry), ARCHIVE_WARN) << archive_error_string(writer);
    if (!member.data.empty()) archive_write_data(writer, member.data.data(), member.data.size());
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_close(writer), ARCHIVE_OK);
  archive_write_free(writer);
  return tar;
}

std::vector<Row> AllRows(const DatasetReader& dataset) { return ScanRows(dataset); }

std::vector<Row> AllRowsByValue(const DatasetReader& dataset) {
  std::vector<Row> rows;
  BlockBuffer buffer;
  for (uint64_t sample = 0; sample < dataset.sample_count(); ++sample) {
    Row& row = rows.emplace_back();
    for (size_t column = 0; column < dataset.columns().size(); ++column) {
      const auto value = dataset.ReadValue(sample, column, &buffer);
      EXPECT_TRUE(value.ok()) << value.status();
      if (!value.ok()) return rows;
      std::string copied;
      const auto present = dataset.CopyValue(sample, column, [&](std::string_view piece) {
        copied += piece;
        return absl::OkStatus();
      });
      EXPECT_TRUE(present.ok()) << present.status();
      EXPECT_EQ(present.ok() && *present, value->has_value());
      EXPECT_EQ(copied, value->value_or(""));
      const auto parts = test::ReadInParts(dataset.OpenValue(sample, column));
      EXPECT_TRUE(parts.ok()) << parts.status();
      EXPECT_EQ(parts.ok() && *parts, value->has_value());
      EXPECT_EQ(parts->value_or(""), value->value_or(""));
      if (*value) row[dataset.columns()[column].name] = **value;
    }
  }
  return rows;
}

std::vector<Row> Expected(const std::vector<TarMember>& members) {
  static const std::regex name_rule("^((?:.*/|)[^.]+)[.]([^/]*)$");
  static const std::regex meta_rule("^__[^/]*__($|/)");
  std::vector<Row> rows;
  for (const TarMember& member : members) {
    std::smatch match;
    if (member.type != '0' || std::regex_search(member.name, meta_rule)) continue;
    if (!std::regex_match(member.name, match, name_rule)) continue;
    std::string column = match[2];
    for (char& c : column) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    if (rows.empty() || rows.back()["key"] != match[1]) rows.push_back({{"key", match[1]}});
    rows.back()[column.empty() ? "/." : column == "key" ? "/key" : column] = member.data;
  }
  return rows;
}

}  // namespace shardkit::test
