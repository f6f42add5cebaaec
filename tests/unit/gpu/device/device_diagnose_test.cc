#include <gtest/gtest.h>

#include "shardkit/loader.h"

namespace shardkit::test {
namespace {

// A run of ten seconds. The consumer waited for half of the time; the device and the upload stage did little.
LoaderReport Waiting() {
  LoaderReport report;
  report.batches = 100;
  report.seconds = report.step_seconds = 10;
  report.consumer_wait_seconds = 5;
  report.uploaded_bytes = 1000;
  report.decode.threads = report.read.threads = 2;
  report.decode.busy = 19, report.decode.starved = 1;
  report.read.busy = 1, report.read.blocked = 19;
  return report;
}

TEST(DeviceDiagnose, NamesTheStageThatBounds) {
  LoaderReport report = Waiting();
  report.batches = 1;
  EXPECT_EQ(Diagnose(report).stage, "none");
  report = Waiting();
  report.consumer_wait_seconds = 0.05;
  EXPECT_EQ(Diagnose(report).stage, "consumer");
  report = Waiting();
  report.copy_seconds = 8;
  EXPECT_EQ(Diagnose(report).stage, "copy");
  report = Waiting();
  report.kernel_seconds = 12;  // the first batches' before the first step, too
  EXPECT_EQ(Diagnose(report).stage, "kernel");
  EXPECT_NE(Diagnose(report).reason.find("100.0 %"), std::string::npos);
  report = Waiting();
  report.upload.busy = 8;
  EXPECT_EQ(Diagnose(report).stage, "upload");
  EXPECT_NE(Diagnose(report).advice.find("batch_size"), std::string::npos);
  report.staged_bytes = 100;
  EXPECT_NE(Diagnose(report).advice.find("pinned_bytes"), std::string::npos);
  report = Waiting();
  report.upload.blocked = 9;  // for the consumer
  EXPECT_EQ(Diagnose(report).stage, "decode");
  report.memory_wait_seconds = 2;
  EXPECT_EQ(Diagnose(report).stage, "memory");
  EXPECT_NE(Diagnose(report).advice.find("device_bytes"), std::string::npos);
}

// The diagnosis of the loader refers to the waits of this consumer.
TEST(DeviceDiagnose, TheLoadersStages) {
  LoaderReport report = Waiting();
  EXPECT_EQ(Diagnose(report).stage, "decode");
  EXPECT_NE(Diagnose(report).reason.find("the consumer waits for 50.0 %"), std::string::npos);
  report.decode.busy = 1, report.decode.starved = 19;
  report.read.busy = 19, report.read.blocked = 1;
  EXPECT_EQ(Diagnose(report).stage, "read");
}

}  // namespace
}  // namespace shardkit::test
