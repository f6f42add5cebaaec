#include <gtest/gtest.h>

#include "shardkit/gpu/device_loader.h"

namespace shardkit::test {
namespace {

using gpu::DeviceReport;
using gpu::Diagnose;

// A run of ten seconds. The consumer waited for half of the time; the device and the upload stage did little.
DeviceReport Waiting() {
  DeviceReport report;
  report.batches = report.loader.batches = 100;
  report.seconds = report.step_seconds = 10;
  report.consumer_wait_seconds = 5;
  report.uploaded_bytes = 1000;
  report.loader.decode.threads = report.loader.read.threads = 2;
  report.loader.decode.busy = 19, report.loader.decode.starved = 1;
  report.loader.read.busy = 1, report.loader.read.blocked = 19;
  return report;
}

TEST(DeviceDiagnose, NamesTheStageThatBounds) {
  DeviceReport report = Waiting();
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
  DeviceReport report = Waiting();
  report.loader.step_seconds = 10;
  report.loader.consumer_wait_seconds = 0;
  EXPECT_EQ(Diagnose(report).stage, "decode");
  EXPECT_NE(Diagnose(report).reason.find("the consumer waits for 50.0 %"), std::string::npos);
  report.loader.decode.busy = 1, report.loader.decode.starved = 19;
  report.loader.read.busy = 19, report.loader.read.blocked = 1;
  EXPECT_EQ(Diagnose(report).stage, "read");
}

}  // namespace
}  // namespace shardkit::test
