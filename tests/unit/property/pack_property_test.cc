// Random trees, packed with random options and unpacked again, must come back unchanged. Packed in tasks,
// they must give the same files.
#include <algorithm>

#include "dataset/dataset_support.h"
#include "support/effort.h"
#include "synth/random.h"

namespace shardkit::test {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed, 1, 0) {}

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  bool Chance(int percent) { return random_.Chance(percent); }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Below(from.size())];
  }

  // A tree of up to a hundred samples.
  Tree MakeTree() {
    Tree tree;
    const std::vector<std::string> extensions =
        Subset({"jpg", "JPG", "json", "txt", "png", "tar", "a.b.c", "npy", "key", "shard", "", "-", "cls",
                "\xc3\xa9t\xc3\xa9", "seg.png", "json.gz", "0"});
    std::vector<std::string> directories = {""};
    for (uint64_t i = Below(6); i-- > 0;) {
      directories.push_back(Pick(directories) +
                            Pick<std::string>({"a", "B", "a b", "x.y", "\xe6\x97\xa5", "deep/er/still", ".h"}) + "/");
    }
    const uint64_t samples = Below(100);
    for (uint64_t i = 0; i < samples; ++i) {
      const std::string key = Pick(directories) + Stem(i);
      const uint64_t files = 1 + Below(3);
      for (uint64_t k = 0; k < files; ++k) {
        const bool dot = !Chance(5);
        Add(key + (dot ? "." + Pick(extensions) : std::string()), &tree);
      }
    }
    return tree;
  }

  PackOptions MakeOptions() {
    PackOptions options;
    DatasetWriterOptions& dataset = options.dataset;
    dataset.threads = 1 + static_cast<int>(Below(3));
    dataset.shard.alignment = Pick<uint32_t>({64, 512, 4096});
    dataset.shard.block_size = Pick<uint64_t>({1, 200, 3000, 4 << 20});
    dataset.shard.max_block_samples = Pick<uint32_t>({1, 2, 5, 65536});
    if (Chance(40)) dataset.shard_samples = 1 + Below(20);
    dataset.shard_size = Pick<uint64_t>({1, 5000, 50000, 256 << 20});
    for (const std::string name : {"jpg", "json", "txt", "a.b.c", "key"}) {
      if (Chance(30)) dataset.codecs[name] = Chance(50) ? Codec::kNone : Codec::kZstd;
    }
    if (Chance(30)) dataset.codecs["key"] = Codec::kZstd;
    return options;
  }

 private:
  std::vector<std::string> Subset(std::vector<std::string> all) {
    std::vector<std::string> some;
    for (const std::string& item : all) {
      if (Chance(40)) some.push_back(item);
    }
    if (some.empty()) some.push_back(all[0]);
    return some;
  }

  std::string Stem(uint64_t i) {
    const std::string number = std::to_string(Chance(50) ? i : i * 7919 % 1000);
    return Pick<std::string>({"s", "S", "-", " ", "\xc3\xbc", "~", "image_", "%", "a+b", "\xf0\x9f\x90\x8e"}) + number;
  }

  // Adds nothing where a directory of that name exists, and nothing below a file.
  void Add(const std::string& name, Tree* tree) {
    const auto after = tree->lower_bound(name + "/");
    if (after != tree->end() && after->first.starts_with(name + "/")) return;
    for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
      if (tree->contains(name.substr(0, slash))) return;
    }
    std::string bytes;
    // A file with an image's name begins like an image.
    const bool image = name.ends_with("jpg") || name.ends_with("JPG") || name.ends_with("png");
    if (image) bytes = Pick<std::string>({"\xff\xd8\xff", "\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "GIF89a", "BM"});
    if (name.ends_with("json") && Chance(70)) bytes = "{\"a\": 1}";
    if (!bytes.ends_with('}') && Chance(90)) {
      const uint64_t length = Chance(3) ? Below(20000) : Below(120);
      const bool text = Chance(50);
      for (uint64_t k = 0; k < length; ++k) bytes += static_cast<char>(text ? 'a' + k % 7 : random_.Next());
    }
    (*tree)[name] = std::move(bytes);
  }

  shardctl::SynthRandom random_;
};

class PackPropertyTest : public testing::TestWithParam<uint64_t> {};

void CheckConfiguration(uint64_t seed) {
  Generator generator(seed);
  const Tree tree = generator.MakeTree();
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/in", tree);
  PackOptions options = generator.MakeOptions();
  // A codec of a column that no sample has is refused.
  const auto plain = PackFiles(*files, {"/in"}, "/plain", {});
  ASSERT_TRUE(plain.ok()) << plain.status() << "\n" << Describe(tree);
  std::erase_if(options.dataset.codecs, [&](const auto& codec) { return !plain->manifest.schema.Find(codec.first); });
  const auto report = PackFiles(*files, {"/in"}, "/out", options);
  ASSERT_TRUE(report.ok()) << report.status() << "\n" << Describe(tree);
  ASSERT_EQ(ValidateText(*files, "/out"), "");
  const auto dataset = DatasetReader::Open(*files, "/out");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->index_problem(), "");

  UnpackOptions unpack;
  unpack.threads = options.dataset.threads;
  const auto unpacked = Unpack(*files, **dataset, "/back", unpack);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(unpacked->files, tree.size());
  Tree back = ReadTree(*files, "/back");
  std::erase_if(back, [](const auto& entry) { return entry.first.ends_with('/'); });
  ASSERT_TRUE(back == tree) << Describe(back) << "\nis not\n" << Describe(tree);

  // Other ways to read the same samples.
  const std::vector<Row> rows = ScanRows(**dataset);
  ASSERT_EQ(rows.size(), report->samples);
  BlockBuffer buffer;
  for (uint64_t i = 0; i < std::min<uint64_t>(rows.size(), 10); ++i) {
    const uint64_t sample = generator.Below(rows.size());
    const size_t column = generator.Below((*dataset)->columns().size());
    const auto value = (*dataset)->ReadValue(sample, column, &buffer);
    ASSERT_TRUE(value.ok()) << value.status();
    const auto found = rows[sample].find((*dataset)->columns()[column].name);
    ASSERT_EQ(value->has_value(), found != rows[sample].end());
    if (*value) {
      ASSERT_EQ(**value, found->second);
    }
  }

  // In tasks, in any order and some of them twice: the same files.
  PackOptions plan_options = options;
  plan_options.dataset.threads = 2;
  const auto plan =
      PlanPack(*files, "files", {"/in"}, {.file_system = files.get(), .allow_empty = true}, "/tasks", plan_options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->samples, rows.size());
  std::vector<uint64_t> order;
  const uint64_t tasks = 1 + generator.Below(9);
  for (uint64_t task = 0; task < tasks; ++task) {
    for (uint64_t times = 1 + generator.Below(2); times > 0; --times) {
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(generator.Below(order.size() + 1)), task);
    }
  }
  uint64_t packed = 0;
  for (const uint64_t task : order) {
    const auto done = PackTask(*files, "/tasks", {.task = task, .tasks = tasks, .threads = options.dataset.threads});
    ASSERT_TRUE(done.ok()) << done.status();
    packed += done->samples;
  }
  ASSERT_EQ(packed, rows.size());
  const auto finished = FinishPack(*files, "/tasks", 2);
  ASSERT_TRUE(finished.ok()) << finished.status();
  ASSERT_EQ(finished->input_bytes, report->input_bytes);
  ASSERT_TRUE(ReadTree(*files, "/tasks") == ReadTree(*files, "/out"))
      << Describe(ReadTree(*files, "/tasks")) << "\nis not\n"
      << Describe(ReadTree(*files, "/out"));
}

// In groups, so that they can run in parallel and a failure is found quickly.
TEST_P(PackPropertyTest, ComesBackAsItWas) {
  for (uint64_t i = 0; i < 50; i += TestStep()) {
    const uint64_t seed = GetParam() * 50 + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckConfiguration(seed);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PackPropertyTest, testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace shardkit::test
