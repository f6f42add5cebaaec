#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/hash.h"
#include "operations/sa1b/sa1b.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "support/fault_filesystem.h"
#include "synth/sa1b.h"
#include "synth/synth.h"

namespace shardctl {
namespace {

using namespace shardkit;

using Files = std::map<std::string, std::string>;

Files ReadAll(FileSystem& file_system, const std::string& directory) {
  Files files;
  const auto entries = file_system.List(directory);
  EXPECT_TRUE(entries.ok()) << entries.status();
  for (const DirectoryEntry& entry : *entries) {
    const auto bytes = file_system.ReadFile(JoinPath(directory, entry.name), uint64_t{1} << 26);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    files[entry.name] = *bytes;
  }
  return files;
}

SynthSa1bOptions SmallPairs() {
  SynthSa1bOptions options;
  options.count = 6;
  options.threads = 1;
  options.width = 320;
  options.height = 200;
  return options;
}

Files Make(const SynthSa1bOptions& options) {
  const auto file_system = NewMemoryFileSystem();
  const absl::Status status = SynthesizeSa1b(*file_system, "/a/b", options);
  EXPECT_TRUE(status.ok()) << status;
  return ReadAll(*file_system, "/a/b");
}

TEST(SynthSa1b, TheNumberOfThreadsDoesNotMatter) {
  SynthSa1bOptions options = SmallPairs();
  const Files one = Make(options);
  ASSERT_EQ(one.size(), 12u);
  options.threads = 5;
  EXPECT_EQ(Make(options), one);
}

TEST(SynthSa1b, APairDependsOnItsNumberAndTheSeedAlone) {
  SynthSa1bOptions options = SmallPairs();
  const Files all = Make(options);
  options.first_id = 4;
  options.count = 1;
  const Files fourth = Make(options);
  ASSERT_EQ(fourth.size(), 2u);
  for (const auto& [name, bytes] : fourth) EXPECT_EQ(all.at(name), bytes) << name;
  options.seed = 2;
  for (const auto& [name, bytes] : Make(options)) EXPECT_NE(all.at(name), bytes) << name;
}

// The output must be the same on every machine, with every compiler and in every release. Only a deliberate change of
// the drawing changes these numbers.
TEST(SynthSa1b, PixelsAndTextAreTheSameEverywhere) {
  const NoiseTiles tiles(1);
  SynthPairMaker maker(SmallPairs(), tiles);
  std::string jpeg;
  std::string json;
  ASSERT_TRUE(maker.Make(1, &jpeg, &json).ok());
  EXPECT_EQ(Hash64(json), 15468386261183078475u);
  EXPECT_EQ(Hash64(maker.rgb().data(), maker.rgb().size()), 9839868575654348594u);
}

TEST(SynthSa1b, AnnotationsAreConsistent) {
  const Files files = Make(SmallPairs());
  for (uint64_t id = 1; id <= 6; ++id) {
    const std::string name = "sa_" + std::to_string(id);
    const auto info = ProbeJpeg(files.at(name + ".jpg"));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->width, 320u);
    EXPECT_EQ(info->height, 200u);
    EXPECT_EQ(info->components, 3);

    const auto json = nlohmann::json::parse(files.at(name + ".json"));
    EXPECT_EQ(json["image"]["image_id"], id);
    EXPECT_EQ(json["image"]["width"], 320);
    EXPECT_EQ(json["image"]["height"], 200);
    EXPECT_EQ(json["image"]["file_name"], name + ".jpg");
    EXPECT_GE(json["annotations"].size(), 60u);
    EXPECT_LE(json["annotations"].size(), 150u);
    uint64_t last_id = 0;
    for (const auto& annotation : json["annotations"]) {
      EXPECT_GT(annotation["id"].get<uint64_t>(), last_id);
      last_id = annotation["id"];
      ASSERT_EQ(annotation["segmentation"]["size"], (std::vector<int>{200, 320}));
      Rle mask{200, 320, {}};
      const std::string counts = annotation["segmentation"]["counts"];
      ASSERT_TRUE(RunsFromCocoText(counts, &mask.runs).ok());
      ASSERT_TRUE(ValidateRle(mask).ok());
      EXPECT_EQ(annotation["area"].get<uint64_t>(), Area(mask));
      const auto box = BoundingBox(mask);
      EXPECT_EQ(annotation["bbox"],
                (std::vector<double>{double(box[0]), double(box[1]), double(box[2] - 1), double(box[3] - 1)}));
      EXPECT_EQ(annotation["crop_box"], (std::vector<double>{0, 0, 320, 200}));

      std::vector<uint8_t> dense(320 * 200);
      ASSERT_TRUE(DecodeDense(mask, dense).ok());
      ASSERT_EQ(annotation["point_coords"].size(), 1u);
      const double x = annotation["point_coords"][0][0];
      const double y = annotation["point_coords"][0][1];
      EXPECT_EQ(x * 16, std::floor(x * 16));
      EXPECT_EQ(y * 16, std::floor(y * 16));
      EXPECT_EQ(dense[static_cast<size_t>(y) * 320 + static_cast<size_t>(x)], 1);

      for (const char* score : {"predicted_iou", "stability_score"}) {
        const double value = annotation[score];
        EXPECT_EQ(value, static_cast<double>(static_cast<float>(value)));
        EXPECT_GE(value, 0.87);
        EXPECT_LE(value, 1.04);
      }
    }
  }
}

TEST(SynthSa1b, TextIsAsPythonWritesIt) {
  SynthSa1bOptions options = SmallPairs();
  options.count = 1;
  options.min_objects = options.max_objects = 2;
  const std::string json = Make(options).at("sa_1.json");
  const std::string head =
      R"({"image": {"image_id": 1, "width": 320, "height": 200, "file_name": "sa_1.jpg"}, "annotations": [{"bbox": [)";
  EXPECT_EQ(json.substr(0, head.size()), head);
  EXPECT_EQ(json.substr(json.size() - 3), "}]}");
  // The members of each annotation, in the order of the published files.
  size_t position = 0;
  for (const char* member :
       {"\"bbox\": [", "], \"area\": ", ", \"segmentation\": {\"size\": [200, 320], \"counts\": \"",
        "\"}, \"predicted_iou\": ", ", \"point_coords\": [[",
        "]], \"crop_box\": [0.0, 0.0, 320.0, 200.0], \"id\": ", ", \"stability_score\": ", "}, {\"bbox\": ["}) {
    position = json.find(member, position);
    ASSERT_NE(position, std::string::npos) << member;
  }
}

TEST(SynthSa1b, TheConverterNeedsNotKeepTheText) {
  operations::Sa1bConverter converter;
  for (const auto& [name, bytes] : Make(SmallPairs())) {
    if (!name.ends_with(".json")) continue;
    ByteArena arena;
    std::vector<Field> fields;
    const absl::Status status = converter.Convert(bytes, &arena, &fields);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GE(fields.size(), 11u);
    for (const Field& field : fields) EXPECT_NE(field.column->name, "source_json") << name;
  }
}

TEST(SynthSa1b, AFailureLeavesNoHalfPair) {
  SynthSa1bOptions options = SmallPairs();
  options.count = 2;
  options.width = options.height = 40;
  for (uint64_t call = 1;; ++call) {
    ASSERT_LT(call, 100u);
    const auto memory = NewMemoryFileSystem();
    FaultFileSystem faults(memory.get());
    faults.FailCall(call, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    const absl::Status status = SynthesizeSa1b(faults, "/d", options);
    if (!faults.failed_call()) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GT(call, 16u);
      break;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << call << ": " << status;
    if (!memory->Stat("/d").ok()) continue;
    size_t pictures = 0;
    size_t texts = 0;
    for (const auto& [name, bytes] : ReadAll(*memory, "/d")) {
      EXPECT_FALSE(name.ends_with(".partial")) << call << ": " << name;
      pictures += name.ends_with(".jpg");
      texts += name.ends_with(".json");
    }
    EXPECT_EQ(pictures, texts) << call;
  }
}

TEST(SynthSa1b, DefaultSizesHaveAShortSideOf1500) {
  SynthSa1bOptions options;
  options.count = 3;
  options.threads = 2;
  uint64_t objects = 0;
  for (const auto& [name, bytes] : Make(options)) {
    if (!name.ends_with(".json")) {
      EXPECT_GT(bytes.size(), 200'000u);
      EXPECT_LT(bytes.size(), 3'000'000u);
      continue;
    }
    const auto json = nlohmann::json::parse(bytes);
    EXPECT_EQ(std::min(json["image"]["width"], json["image"]["height"]), 1500);
    objects += json["annotations"].size();
  }
  EXPECT_GT(objects, 180u);
}

TEST(SynthSa1b, TinyPicturesWork) {
  SynthSa1bOptions options = SmallPairs();
  options.width = options.height = 1;
  EXPECT_EQ(Make(options).size(), 12u);
  options.width = 16;
  options.height = 9;
  EXPECT_EQ(Make(options).size(), 12u);
}

TEST(SynthSa1b, ImpossibleOptionsAreRefused) {
  const auto file_system = NewMemoryFileSystem();
  const auto refused = [&](auto change) {
    SynthSa1bOptions options = SmallPairs();
    change(options);
    return absl::IsInvalidArgument(SynthesizeSa1b(*file_system, "/a", options));
  };
  EXPECT_TRUE(refused([](auto& o) { o.threads = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.width = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.height = 20000; }));
  EXPECT_TRUE(refused([](auto& o) { o.max_objects = 251; }));
  EXPECT_TRUE(refused([](auto& o) { o.min_objects = o.max_objects + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.jpeg_quality = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.first_id = UINT64_MAX; }));
  EXPECT_TRUE(absl::IsNotFound(file_system->Stat("/a").status()));
}

}  // namespace
}  // namespace shardctl
