// The system starts no more threads. Code that can work with fewer threads, or without threads, does so.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "loader/loader_support.h"

#if !defined(__SANITIZE_THREAD__)
namespace {
std::atomic<int> threads_left = INT32_MAX;
}  // namespace

// Replaces the C library's function: the library calls this one.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Function* const create = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "pthread_create"));
  return threads_left.fetch_sub(1) > 0 ? create(thread, attributes, run, argument) : EAGAIN;
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
