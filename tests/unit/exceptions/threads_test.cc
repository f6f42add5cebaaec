// How many threads run, and that code that can work with fewer, or without any, does so where the system starts no
// more.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/thread_pool.h"
#include "loader/loader_support.h"
#include "shardkit/copy.h"
#include "shardkit/pack.h"

#if !defined(__SANITIZE_THREAD__)
namespace {
std::atomic<int> threads_left = INT32_MAX;
std::atomic<int> running = 0;
std::atomic<int> most_running = 0;

struct Start {
  void* (*run)(void*);
  void* argument;
};

void* RunCounted(void* start) {
  const std::unique_ptr<Start> begun(static_cast<Start*>(start));
  void* const result = begun->run(begun->argument);
  --running;
  return result;
}
}  // namespace

// Replaces the C library's function: the library calls this one.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Function* const create = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  const int now = ++running;
  int most = most_running;
  while (most < now && !most_running.compare_exchange_weak(most, now)) {
  }
  return create(thread, attributes, RunCounted, new Start{run, argument});
}

namespace shardkit::test {
namespace {

TEST(Threads, FewerThanWereAskedFor) {
  const auto files = NewMemoryFileSystem();
  const std::vector<OwnedSample> samples = MakeSamples(60);
  for (const int left : {0, 1, 2}) {
    const std::string path = "/data" + std::to_string(left);
    DatasetWriterOptions options = SmallShards(20, 5);
    options.threads = 4;
    threads_left = left;
    const auto summary = WriteDataset(*files, path, samples, options);
    threads_left = left;
    ValidateOptions validate;
    validate.threads = 4;
    const auto report = Validate(*files, path, validate);
    threads_left = left;
    std::vector<Row> rows;
    {
      const auto dataset = DatasetReader::Open(*files, path);
      rows = ScanRows(**dataset, {.threads = 4});
    }
    threads_left = INT32_MAX;
    ASSERT_TRUE(summary.ok()) << summary.status();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->ok());
    EXPECT_EQ(rows, RowsOf(samples));
  }
}

TEST(Threads, AJobHasAsManyAsWereAskedFor) {
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(WriteDataset(*files, "/data", MakeSamples(60), SmallShards(20, 5)).ok());
  ASSERT_TRUE(files->CreateDirectory("/in").ok());
  for (int i = 0; i < 20; ++i) {
    const auto file = files->Create("/in/" + std::to_string(i) + ".txt");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append("text").ok() && (*file)->Close().ok());
  }
  ConvertOptions convert;
  convert.pack.dataset.threads = 4;
  ConvertOptions to_mds = convert;
  to_mds.to = Container::kMds;
  ReshardOptions reshard;
  reshard.pack = convert.pack;
  ReshardOptions shuffle = reshard;
  shuffle.shuffle = 1;
  ValidateOptions validate;
  validate.threads = 4;
  const std::vector<std::pair<std::string, std::function<absl::Status()>>> jobs = {
      {"pack",
       [&] {
         const auto source = OpenSource("files", {"/in"}, {{}, files.get()});
         return source.ok() ? Pack(*files, **source, "/packed", convert.pack).status() : source.status();
       }},
      {"dry run",
       [&] {
         const auto source = OpenSource("files", {"/in"}, {{}, files.get()});
         return source.ok() ? DryRunPack(**source, convert.pack).status() : source.status();
       }},
      {"convert", [&] { return Convert(*files, "/data", "/converted", convert).status(); }},
      {"convert to MDS", [&] { return Convert(*files, "/packed", "/mds", to_mds).status(); }},
      {"reshard", [&] { return Reshard(*files, "/data", "/resharded", reshard).status(); }},
      {"shuffle", [&] { return Reshard(*files, "/data", "/shuffled", shuffle).status(); }},
      {"unpack",
       [&] {
         const auto dataset = DatasetReader::Open(*files, "/data");
         return dataset.ok() ? Unpack(*files, **dataset, "/unpacked", {{.threads = 4}}).status() : dataset.status();
       }},
      {"validate", [&] { return Validate(*files, "/data", validate).status(); }},
      {"validate MDS", [&] { return Validate(*files, "/mds", validate).status(); }},
  };
  for (const auto& [name, run] : jobs) {
    most_running = 0;
    const absl::Status status = run();
    ASSERT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_EQ(most_running, 4) << name;
    EXPECT_EQ(running, 0) << name;
  }
}

TEST(Threads, ALoaderNeedsThemAll) {
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(WriteDataset(*files, "/data", MakeSamples(60), SmallShards(20, 5)).ok());
  LoaderOptions options;
  options.plan.batch_size = 5;
  options.read_threads = options.decode_threads = 2;
  for (int left = 0; left < 5; ++left) {
    threads_left = left;
    const auto loader = Loader::Open(*files, {{.path = "/data"}}, options);
    threads_left = INT32_MAX;
    EXPECT_TRUE(absl::IsResourceExhausted(loader.status())) << loader.status();
  }
}

}  // namespace
}  // namespace shardkit::test
#endif

namespace shardkit::test {
namespace {

TEST(OrderedTasks, ComeInTheOrderInWhichTheyWereAdded) {
  for (const int threads : {0, 1, 3}) {
    ThreadPool pool(threads);
    OrderedTasks<absl::StatusOr<int>, int> tasks(pool, "counting", nullptr, 5);
    int added = 0;
    for (int next = 0; next < 100; ++next) {
      for (; added < 100 && !tasks.full(); ++added) {
        if (added % 7 == 3) {
          tasks.AddReady(2 * added, added);
          continue;
        }
        tasks.Add(
            [added, held = std::make_unique<int>(2 * added)]() -> absl::StatusOr<int> {
              if (added % 5 == 0) std::this_thread::yield();
              return *held;
            },
            added);
      }
      ASSERT_LE(tasks.size(), 5u);
      ASSERT_EQ(tasks.front(), next);
      const auto [item, result] = tasks.Take();
      ASSERT_EQ(item, next);
      ASSERT_EQ(result.value(), 2 * next);
    }
    EXPECT_TRUE(tasks.empty());
  }
}

TEST(OrderedTasks, ThatHaveNotBegunDoNotRunAfterTheEnd) {
  ThreadPool pool(1);
  std::atomic<int> ran = 0;
  std::atomic<bool> stopped = false;
  {
    OrderedTasks<absl::Status> tasks(pool, "running", nullptr, 8);
    tasks.Add([&] {
      ++ran;
      while (tasks.Check().ok()) std::this_thread::yield();
      stopped = true;
      return absl::OkStatus();
    });
    for (int i = 0; i < 5; ++i) {
      tasks.Add([&] {
        ++ran;
        return absl::OkStatus();
      });
    }
    while (ran == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(ran, 1);
}

TEST(OrderedTasks, AreCancelled) {
  Cancellation cancellation;
  ThreadPool pool(2);
  OrderedTasks<absl::Status> tasks(pool, "working", &cancellation, 8);
  std::atomic<int> ran = 0;
  tasks.Add([&] {
    ++ran;
    return absl::OkStatus();
  });
  ASSERT_TRUE(tasks.Take().result.ok());
  tasks.Add([&] { return absl::OkStatus(); });
  cancellation.Cancel();
  tasks.Add([&] {
    ++ran;
    return absl::OkStatus();
  });
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = tasks.Take().result;
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(status.message(), "cancelled while working");
  }
  EXPECT_EQ(ran, 1);
}

TEST(OrderedTasks, ExceptionsAreErrors) {
  ThreadPool pool(1);
  OrderedTasks<absl::StatusOr<int>> tasks(pool, "throwing", nullptr, 2);
  tasks.Add([]() -> absl::StatusOr<int> { throw std::runtime_error("no"); });
  const absl::Status status = tasks.Take().result.status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_NE(std::string(status.message()).find("throwing"), std::string::npos) << status;
}

}  // namespace
}  // namespace shardkit::test
