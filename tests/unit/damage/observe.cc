#include "unit/damage/observe.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "support/effort.h"

namespace shardkit::test {
namespace {

const std::string kFolder = "/data";

std::string TargetOf(const Subject& subject) {
  return subject.target.empty() ? kFolder : JoinPath(kFolder, subject.target);
}

class Observer {
 public:
  Observer(FileSystem& files, const Subject& subject) : files_(files), subject_(subject) {}

  Observation Run(size_t turn) {
    const auto dataset = DatasetReader::Open(files_, TargetOf(subject_));
    if (dataset.ok()) {
      ReadAll(**dataset);
    } else {
      Note(dataset.status());
    }
    ReadColumn(turn % subject_.columns.size());
    const auto report = Validate(files_, TargetOf(subject_), {.deep = true});
    seen_.found = !report.ok() || !report->ok();
    if (report.ok()) seen_.problems = report->problems;
    return std::move(seen_);
  }

 private:
  void Note(const absl::Status& status) {
    if (seen_.error.ok()) seen_.error = status;
  }
  void Lie(std::string what) { seen_.lies.push_back(std::move(what)); }

  void Take(size_t sample, size_t column, const std::optional<std::string_view>& value) {
    const std::optional<std::string>& original = subject_.values[sample][column];
    const auto before = seen_.changed.find({sample, column});
    if (value == original && before == seen_.changed.end()) return;
    std::optional<std::string> other;
    if (value) other = std::string(*value);
    if (before == seen_.changed.end()) {
      seen_.changed.emplace(Place(sample, column), std::move(other));
    } else if (before->second != other) {
      Lie("two answers for a value");
    }
  }

  void TakeBlock(const BlockView& view, uint64_t first_sample, std::optional<size_t> only) {
    if (first_sample + view.sample_count() > subject_.values.size()) return Lie("more samples than there are");
    for (size_t c = 0; c < view.column_count(); ++c) {
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        Take(first_sample + i, only.value_or(c), view.column(c).value(i));
      }
    }
  }

  void ReadAll(const DatasetReader& dataset) {
    if (dataset.columns() != subject_.columns) return Lie("other columns");
    if (dataset.sample_count() != subject_.values.size()) return Lie("another number of samples");
    ReadInOrder(dataset);
    ReadAtRandom(dataset);
    FindKeys(dataset);
    const auto shard = dataset.OpenShard(0);
    Note(shard.status());
    if (!shard.ok()) return;
    const auto metadata = (*shard)->ReadMetadata();
    Note(metadata.status());
    if (metadata.ok() && *metadata != subject_.metadata) Lie("other metadata");
    const auto statistics = dataset.ReadStatistics();
    if (dataset.container() != "shard") return;  // other containers compute them from the present values
    Note(statistics.status());
    if (statistics.ok() && *statistics != subject_.statistics) Lie("other statistics");
  }

  void ReadInOrder(const DatasetReader& dataset) {
    const auto scanner = dataset.Scan({.threads = 0});
    if (!scanner.ok()) return Note(scanner.status());
    uint64_t next = 0;
    while (true) {
      const auto block = (*scanner)->Next();
      if (!block.ok()) return Note(block.status());
      if (*block == nullptr) break;
      if ((*block)->first_sample() != next) Lie("a block in another's place");
      TakeBlock((*block)->view(), (*block)->first_sample(), std::nullopt);
      next = (*block)->first_sample() + (*block)->view().sample_count();
    }
    if (next != subject_.values.size()) Lie("an end before the end");
  }

  void ReadAtRandom(const DatasetReader& dataset) {
    const size_t count = subject_.values.size();
    for (size_t k = 0; k < count; ++k) {
      const size_t sample = (k * 7 + 3) % count;
      for (size_t c = 0; c < subject_.columns.size(); ++c) {
        const auto value = dataset.ReadValue(sample, c, &buffer_);
        Note(value.status());
        if (value.ok()) Take(sample, c, *value);
        std::string copy;
        const auto present = dataset.CopyValue(sample, c, [&](std::string_view piece) {
          copy += piece;
          return absl::OkStatus();
        });
        Note(present.status());
        if (present.ok()) Take(sample, c, *present ? std::optional<std::string_view>(copy) : std::nullopt);
      }
    }
  }

  void FindKeys(const DatasetReader& dataset) {
    const auto key = std::ranges::find_if(subject_.columns, &Column::is_key);
    if (key == subject_.columns.end()) return;
    const size_t column = static_cast<size_t>(key - subject_.columns.begin());
    for (size_t sample = 0; sample < subject_.values.size(); ++sample) {
      const auto found = dataset.FindKey(*subject_.values[sample][column], &buffer_);
      Note(found.status());
      if (found.ok() && *found && **found != sample) Lie("a key at another sample");
      if (found.ok() && !*found && !seen_.changed.contains({sample, column})) Lie("a key that is not there");
    }
  }

  void ReadColumn(size_t column) {
    DatasetOptions options;
    options.columns = {subject_.columns[column].name};
    const auto dataset = DatasetReader::Open(files_, TargetOf(subject_), options);
    if (!dataset.ok()) return Note(dataset.status());
    if ((*dataset)->columns() != std::vector<Column>{subject_.columns[column]}) return Lie("another column");
    const auto blocks = (*dataset)->ReadBlockDirectory();
    if (!blocks.ok()) return Note(blocks.status());
    BlockView view;
    for (const DatasetBlock& block : *blocks) {
      const absl::Status read = (*dataset)->ReadBlock(block.shard, block.block, &buffer_, &view);
      Note(read);
      if (read.ok()) TakeBlock(view, block.first_sample, column);
    }
  }

  FileSystem& files_;
  const Subject& subject_;
  // Making a decompressor takes longer than all the rest.
  static thread_local BlockBuffer buffer_;
  Observation seen_;
};

thread_local BlockBuffer Observer::buffer_;

// Runs `work(first, stride)` on every processor.
void Share(const std::function<void(uint64_t first, uint64_t stride)>& work) {
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < count; ++i) workers.emplace_back(work, i, count);
  work(0, count);
  for (std::thread& worker : workers) worker.join();
}

class Run {
 public:
  Run(const Subject& subject, const std::string& file, const Check& check)
      : subject_(subject), file_(file), check_(check) {}

  bool enough() const { return failures_ >= 5; }

  void Look(FileSystem& files, uint64_t place, const std::string& what) {
    const Observation observation = Observe(files, subject_, place);
    std::lock_guard lock(mutex_);
    if (enough()) return;
    const int before = Failures();
    check_(place, observation);
    if (Failures() == before) return;
    ++failures_;
    std::string text =
        StrCat(subject_.name, ": ", file_, " ", what, ": read ", ToStd(observation.error.message()), "; ");
    for (const std::string& lie : observation.lies) text += lie + "; ";
    text += StrCat(observation.changed.size(), " values changed; ", observation.problems.size(), " problems, first ",
                   observation.problems.empty() ? "none" : observation.problems[0].message);
    ADD_FAILURE() << text;
  }

 private:
  static int Failures() { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

  const Subject& subject_;
  const std::string& file_;
  const Check& check_;
  std::mutex mutex_;
  std::atomic<int> failures_ = 0;
};

}  // namespace

Observation Observe(FileSystem& files, const Subject& subject, size_t turn) {
  return Observer(files, subject).Run(turn);
}

Subject MakeSubject(std::string name, Tree files, std::string target, Values values) {
  Subject subject{std::move(name), std::move(files), std::move(target), {}, std::move(values), {}, {}};
  const auto memory = NewMemoryFileSystem();
  WriteTree(*memory, kFolder, subject.files);
  const auto dataset = DatasetReader::Open(*memory, TargetOf(subject));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  if (!dataset.ok()) return subject;
  subject.columns = (*dataset)->columns();
  subject.metadata = *(*(*dataset)->OpenShard(0))->ReadMetadata();
  if (const auto statistics = (*dataset)->ReadStatistics(); statistics.ok()) subject.statistics = *statistics;
  for (size_t turn = 0; turn < subject.columns.size(); ++turn) {
    const Observation whole = Observe(*memory, subject, turn);
    EXPECT_TRUE(whole.unharmed() && !whole.found)
        << subject.name << ": " << whole.error << "; " << (whole.lies.empty() ? "" : whole.lies[0]) << "; "
        << whole.changed.size() << " values differ; " << (whole.problems.empty() ? "" : whole.problems[0].message);
  }
  return subject;
}

void FlipEveryBit(const Subject& subject, const std::string& file, const Check& check) {
  const std::string path = JoinPath(kFolder, file);
  const std::string& bytes = subject.files.at(file);
  Run run(subject, file, check);
  Share([&](uint64_t first, uint64_t stride) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, kFolder, subject.files);
    std::string damaged = bytes;
    for (uint64_t bit = first * TestStep(); bit < 8 * bytes.size() && !run.enough(); bit += stride * TestStep()) {
      damaged[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      WriteFile(*files, path, damaged);
      run.Look(*files, bit, StrCat("with bit ", bit % 8, " of byte ", bit / 8, " flipped"));
      damaged[bit / 8] = bytes[bit / 8];
    }
  });
}

void CutAtEveryLength(const Subject& subject, const std::string& file, const Check& check) {
  const std::string path = JoinPath(kFolder, file);
  const std::string& bytes = subject.files.at(file);
  Run run(subject, file, check);
  Share([&](uint64_t first, uint64_t stride) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, kFolder, subject.files);
    for (uint64_t length = first * TestStep(); length < bytes.size() && !run.enough(); length += stride * TestStep()) {
      WriteFile(*files, path, std::string_view(bytes).substr(0, length));
      run.Look(*files, length, StrCat("of ", bytes.size(), " bytes cut to ", length));
    }
  });
}

void ExpectNothingElse(const Observation& observation) {
  EXPECT_TRUE(observation.lies.empty());
  EXPECT_TRUE(observation.changed.empty());
  EXPECT_TRUE(observation.found);
  EXPECT_TRUE(observation.error.ok() || absl::IsDataLoss(observation.error) || absl::IsUnimplemented(observation.error))
      << observation.error;
}

}  // namespace shardkit::test
