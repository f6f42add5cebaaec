#include <zlib.h>

#include <array>
#include <iterator>
#include <string>

#include "mds_files.h"
#include "pack_files.h"
#include "seeds/seeds.h"
#include "shardkit/copy.h"
#include "shardkit/tar_index.h"
#include "support/file_sections.h"
#include "support/gzip.h"
#include "support/require.h"
#include "support/samples.h"
#include "tar_files.h"

namespace shardkit::fuzz {
namespace {

constexpr int kLevel = 6;  // of gzip

std::string ReadFile(FileSystem& files, const std::string& path) {
  auto content = files.ReadFile(path, uint64_t{1} << 30);
  RequireOk(content.status(), "reading a file of a seed");
  return *std::move(content);
}

// The existing files among `names`, as sections.
template <size_t N>
std::vector<std::pair<size_t, std::string>> Collect(FileSystem& files, const std::array<std::string_view, N>& names) {
  std::vector<std::pair<size_t, std::string>> sections;
  for (size_t i = 0; i < N; ++i) {
    const std::string path = JoinPath("/d", names[i]);
    if (files.Stat(path).ok()) sections.emplace_back(i, ReadFile(files, path));
  }
  return sections;
}

// A small schema and samples for it. Columns are not nullable when MDS is the target.
struct Content {
  explicit Content(uint64_t number, Columns which) {
    const std::string bytes = SeedBytes(number, 600);
    Input input(bytes);
    schema = TakeSchema(input, which);
    rows = TakeRows(input, schema);
    if (rows.size() > 6) rows.resize(6);
  }
  Schema schema;
  std::vector<Row> rows;
};

void AddTars(SeedWriter& seeds) {
  for (uint64_t number = 0; number < 12; ++number) {
    const Content content(number, Columns::kByteStrings);
    const auto files = NewMemoryFileSystem();
    {
      const auto writer = CreateWebDatasetWriter(*files, "/d", content.schema);
      RequireOk(writer.status(), "creating tars");
      if (!AppendRows(content.schema, content.rows, **writer).ok() || !(*writer)->Finish().ok()) continue;
    }
    if (!files->Stat("/d/000000.tar").ok()) continue;
    RequireOk(files->Rename("/d/000000.tar", "/d/x.tar"), "naming a tar");
    (void)files->RemoveFile("/d/000000.tar.shardidx");
    (void)BuildTarIndex(*files, "/d/x.tar");
    const auto all = Collect(*files, kTarFiles);
    const std::string name = std::to_string(number);
    seeds.Add("tar", "all-" + name, JoinSections(all));
    const std::string tar = ReadFile(*files, "/d/x.tar");
    seeds.Add("tar", "plain-" + name, JoinSections({{kTar, tar}}));
    seeds.Add("tar", "gzip-" + name, JoinSections({{kGzip, Gzip(tar, kLevel)}}));
  }
}

void AddMds(SeedWriter& seeds) {
  for (uint64_t number = 0; number < 60; ++number) {
    const Content content(number, Columns::kAny);
    MdsWriterOptions options;
    options.shard_samples = 3;
    if (number % 2 == 1) options.compression = "zstd";
    if (number % 3 == 1) options.hashes = {"xxh64", "sha1"};
    const auto files = NewMemoryFileSystem();
    {
      const auto writer = CreateMdsWriter(*files, "/d", content.schema, options);
      if (!writer.ok() || !AppendRows(content.schema, content.rows, **writer).ok() || !(*writer)->Finish().ok())
        continue;
    }
    const std::string name = std::to_string(number);
    seeds.Add("mds", name, JoinSections(Collect(*files, kMdsFiles)));
    const std::string index = ReadFile(*files, "/d/index.json");
    seeds.Add("foreign", "9-" + name, "\x09" + index);
    if (!files->Stat("/d/shard.00000.mds").ok()) continue;
    const std::string shard = ReadFile(*files, "/d/shard.00000.mds");
    seeds.Add("foreign", "3-" + name, std::string("\3\0", 2) + shard);
    seeds.Add("mds", "alone-" + name, JoinSections({{kMdsFirst, shard}}));
    std::string compressed = index;
    for (size_t at = 0; (at = compressed.find("\"zip_data\": null", at)) != compressed.npos; ++at) {
      compressed.replace(at, 16, R"("zip_data": {"basename": "shard.00000.mds.gz", "bytes": 1, "hashes": {}})");
    }
    for (size_t at = 0; (at = compressed.find("\"compression\": null", at)) != compressed.npos; ++at) {
      compressed.replace(at, 19, R"("compression": "gz")");
    }
    seeds.Add("mds", "gz-" + name, JoinSections({{kMdsIndex, compressed}, {kMdsGzip, Gzip(shard, kLevel)}}));
  }
}

// Values that reading converts. Byte strings are stored as they are under any encoding.
void AddConvertedMds(SeedWriter& seeds) {
  const std::string pixels("\2\0\0\0\1\0\0\0\3\0\0\0RGBabcdef", 21);
  const std::string list = std::string("\0\0\0\0\1\0\0\0\x15\0\0\0", 12) + pixels;
  const std::array<std::pair<std::string_view, std::string>, 6> values = {{{"ndarray:int16", "\4\1ab"},
                                                                           {"ndarray", "\x11\4\1ab"},
                                                                           {"str_int", "-7"},
                                                                           {"str_float", "1.5e+300"},
                                                                           {"pil", pixels},
                                                                           {"list[pil]", list}}};
  std::vector<Column> columns;
  std::vector<std::optional<Value>> row;
  MdsWriterOptions options;
  for (const auto& [encoding, value] : values) {
    Column& column = columns.emplace_back();
    column.name = encoding;
    options.encodings[column.name] = encoding;
    row.emplace_back(Value(value));
    seeds.Add("foreign", std::string("value-").append(encoding),
              std::string("\3\0", 2) + static_cast<char>(row.size() - 1) + value);
  }
  const auto schema = Schema::Create(columns);
  RequireOk(schema.status(), "the columns of a seed");
  const auto files = NewMemoryFileSystem();
  const auto writer = CreateMdsWriter(*files, "/d", *schema, options);
  RequireOk(writer.status(), "creating MDS");
  for (int i = 0; i < 2; ++i) RequireOk((*writer)->Append(row), "a sample of a seed");
  RequireOk((*writer)->Finish().status(), "finishing MDS");
  (void)files->RemoveFile("/d/shardkit.json");
  seeds.Add("mds", "converted", JoinSections(Collect(*files, kMdsFiles)));
}

void AddArrays(SeedWriter& seeds) {
  Column key;
  key.name = "key";
  key.type = Type::kUtf8;
  key.is_key = true;
  for (const auto& [choice, dtype] : {std::pair{'\0', Type::kU8}, {'\4', Type::kF32}, {'\3', Type::kBf16}}) {
    Column array;
    array.name = "a";
    array.type = Type::kNdarray;
    array.dtype = dtype;
    array.shape = {2, 3};
    const Schema schema = Schema::Create({key, array}).value();
    const auto files = NewMemoryFileSystem();
    const std::vector<Row> rows = {{"k", std::string(6 * ScalarSize(dtype), 'x')}};
    {
      const auto writer = DatasetWriter::Create(*files, "/in", schema);
      RequireOk(writer.status(), "creating a dataset");
      RequireOk(AppendRows(schema, rows, **writer), "appending");
      RequireOk((*writer)->Finish().status(), "finishing");
    }
    ConvertOptions options;
    options.to = Container::kWebDataset;
    RequireOk(Convert(*files, "/in", "/d", options).status(), "converting");
    const auto read = ReadRows(*files, "/d");
    Require(read && read->size() == 1 && read->front().back(), "a file of NumPy");
    for (const char form : {'\0', '\1'}) {
      seeds.Add("npy",
                TypeName(dtype) == "u8" ? std::string("u8-") + std::to_string(form)
                                        : std::string(TypeName(dtype)) + std::to_string(form),
                std::string{choice, form} + *read->front().back());
    }
  }
}

// A zip of stored members (APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.16).
std::string Zip(const std::vector<std::pair<std::string, std::string>>& members) {
  const auto number = [](uint64_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value);
    return text;
  };
  std::string zip, directory;
  for (const auto& [name, content] : members) {
    const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const std::string common = number(20, 2) + number(0, 8) + number(crc, 4) + number(content.size(), 4) +
                               number(content.size(), 4) + number(name.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(20, 2) + common + number(0, 10) + number(zip.size(), 4) + name;
    zip += "PK\3\4" + common + name + content;
  }
  const uint64_t begin = zip.size();
  return zip + directory + "PK\5\6" + number(0, 4) + number(members.size(), 2) + number(members.size(), 2) +
         number(directory.size(), 4) + number(begin, 4) + number(0, 2);
}

void AddPacked(SeedWriter& seeds) {
  const auto add = [&](const char* name, PackFile kind, const std::string& content) {
    seeds.Add("pack", name, JoinSections({{kind, content}}));
  };
  add("zip", kPackZip, Zip({{"a.txt", "text"}, {"a.json", "{}"}, {"d/b.txt", "more"}}));
  add("zip-of-lines", kPackZip, Zip({{"x.jsonl", "{\"key\": 1}\n{\"key\": 2}\n"}}));
  add("zip-of-metadata", kPackZip,
      Zip({{"metadata.csv", "file_name,n\na.txt,1\nd/b.txt,\nc.txt,2\n"}, {"a.txt", "text"}, {"d/b.txt", "more"}}));
  add("csv", kPackCsv, "key,n,f,t,b\r\na,1,0.5,\"x, \"\"y\"\"\nz\",true\r\nb,,nan,,False\r\n\r\n,3,2,,\r\n");
  add("coco", kPackCoco,
      "{\"info\": {\"year\": 2017}, \"images\": [{\"id\": 7, \"file_name\": \"a.ppm\", \"height\": 4, \"width\": 6},"
      " {\"id\": 8, \"file_name\": \"b.ppm\", \"height\": 4, \"width\": 6}], \"categories\": [{\"id\": 3, \"name\": "
      "\"cat\"}],"
      " \"annotations\": [{\"id\": 1, \"image_id\": 7, \"category_id\": 3, \"segmentation\": [[1, 1, 3, 1, 3, 3.5]],"
      " \"bbox\": [1, 1, 2, 2.5], \"area\": 2.5, \"iscrowd\": 0}, {\"id\": 2, \"image_id\": 8, \"category_id\": 3,"
      " \"segmentation\": {\"size\": [4, 6], \"counts\": [3, 5, 16]}, \"bbox\": [0, 0, 1, 1], \"area\": 5, "
      "\"iscrowd\": 1}]}");
  add("captions", kPackCoco,
      "{\"images\": [{\"id\": 7, \"file_name\": \"a.ppm\"}], \"annotations\": [{\"id\": 1, \"image_id\": 7,"
      " \"caption\": \"a \\\"cat\\\"\"}, {\"id\": 2, \"image_id\": 7, \"caption\": \"\"}]}");
  // 3 x 2 pixels of RGB: 1 1 0 and 1 131332 131332.
  const std::string png(
      "\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\003\000\000\000\002\010\002\000\000\000"
      "\022\026\361M\000\000\000\025IDATx\234c`d`\000\042\020\000R,\214L@\004\000\000u\000\022\033n"
      "\042\344\000\000\000\000IEND\256B`\202",
      78);
  const std::string panoptic =
      "{\"images\": [{\"id\": 7, \"file_name\": \"a.ppm\", \"height\": 2, \"width\": 3}], \"annotations\": "
      "[{\"image_id\": 7,"
      " \"file_name\": \"x.png\", \"segments_info\": [{\"id\": 131332, \"area\": 2}, {\"id\": 1, \"area\": 3}]}]}";
  seeds.Add("pack", "panoptic", JoinSections({{kPackCoco, panoptic}, {kPackPng, png}}));
  add("lines", kPackLines,
      "{\"key\": \"a\", \"n\": 1, \"f\": 0.5, \"t\": \"x\", \"b\": true, \"l\": [1]}\n"
      "{\"key\": \"b\", \"n\": null, \"f\": 2}\n\n{\"key\": \"a\"}\n");
}

void AddTexts(SeedWriter& seeds) {
  int number = 0;
  for (const char* text : {"64KiB", "1.5 GB", "256mib", "18446744073709551615", "0.125KiB", "7"}) {
    seeds.Add("numbers", "size-" + std::to_string(number++), std::string(1, '\0') + text);
    seeds.Add("numbers", "count-" + std::to_string(number),
              std::string("\1") + std::string(8, '\0') + std::string(8, '\xff') + text);
    seeds.Add("numbers", "number-" + std::to_string(number), std::string("\4") + text);
  }
  for (const char* text : {"3:7", ":7", "3:", "0:18446744073709551615"})
    seeds.Add("numbers", std::string("range-") + std::to_string(number++), std::string("\2") + text);
  for (const char* text : {"0/1", "3/8"})
    seeds.Add("numbers", std::string("part-") + std::to_string(number++), std::string("\3") + text);
  for (const char* text : {"\3a/bc/../d", "\1/x.tar.gz"})
    seeds.Add("numbers", std::string("path-") + std::to_string(number++), std::string("\5") + text);
  for (const char* text :
       {"d/a.b.jpg", "a/b.c/d.jpg", ".hidden", "dir/.hidden.jpg", "a..b", "a.", "__k__/x.json", "__k__.json"}) {
    seeds.Add("foreign", "6-" + std::to_string(number++), std::string("\6") + text);
  }
  seeds.Add("foreign", "7-gzip", std::string("\7\1\5\0", 4) + Gzip("hello", kLevel));
  seeds.Add("foreign", "5-array", std::string("\5\x0dndarray:uint8\0\x08\2\3abcdef", 25));
  seeds.Add("foreign", "4-sample", std::string("\4\2\0\1\4\3\0\0\0abcdefg", 16));
  seeds.Add("unpack", "plain", std::string("\0\1b\1c\1k\3\4d/k2\1", 14));
  seeds.Add("unpack", "leading-up", std::string("\1\3jpg\3txt\6../../\3\1/\3", 20));
}

// The first byte chooses what the text is (remote_fuzzer.cc).
void AddAnswers(SeedWriter& seeds) {
  const char* const texts[] = {
      "<?xml version=\"1.0\"?><ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a+/=</NextContinuationToken><Contents><Key>data%2Fx%20y</Key><Size>17</Size></Contents>"
      "<CommonPrefixes><Prefix>data%2Ff%2F</Prefix></CommonPrefixes></ListBucketResult>",
      "\0\0\0\1\3\0"
      "bytes 1-4/9",
      "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"Expiration\":\"2026-11-23T01:02:03Z\"}",
      "[default]\nregion = eu-west-1\n; no\n[profile other]\naws_access_key_id=A\ns3 =\n  max = 1\n[sso-session x]\n",
      "s3://bucket/a b=c%2F/\303\274",
      "../b/c?d=e#f",
  };
  for (uint8_t kind = 0; kind < std::size(texts); ++kind) {
    const std::string_view text = kind == 1 ? std::string_view(texts[kind], 17) : std::string_view(texts[kind]);
    seeds.Add("remote", "answer-" + std::to_string(kind), std::string(1, static_cast<char>(kind)) + std::string(text));
  }
  for (const char* url : {"https://host:1/p?q=1", "gs://b/k", "hf://datasets/o/n@main/f"}) {
    seeds.Add("remote", "url-" + std::string(url).substr(0, std::string(url).find(':')), std::string(1, '\4') + url);
  }
}

}  // namespace

void AddForeignSeeds(SeedWriter& seeds) {
  AddAnswers(seeds);
  AddTars(seeds);
  AddMds(seeds);
  AddConvertedMds(seeds);
  AddArrays(seeds);
  AddTexts(seeds);
  AddPacked(seeds);
  for (const char* target : {"writer", "convert", "unpack"}) {
    for (uint64_t number = 0; number < 40; ++number) {
      seeds.Add(target, "random-" + std::to_string(number), SeedBytes(number, 20 + 30 * number));
    }
  }
}

}  // namespace shardkit::fuzz
