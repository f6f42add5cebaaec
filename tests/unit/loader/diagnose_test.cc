#include <gtest/gtest.h>

#include "shardkit/loader.h"

namespace shardkit {
namespace {

// A run of ten seconds in which the consumer waited for half of the time.
LoaderReport Waiting() {
  LoaderReport report;
  report.batches = 100;
  report.step_seconds = 10;
  report.consumer_wait_seconds = 5;
  report.blocks_read = 100;
  report.read.threads = report.decode.threads = 2;
  return report;
}

TEST(Diagnose, NamesTheStageThatBounds) {
  LoaderReport report = Waiting();
  report.batches = 1;
  EXPECT_EQ(Diagnose(report).stage, "none");

  report = Waiting();
  report.consumer_wait_seconds = 0.05;
  EXPECT_EQ(Diagnose(report).stage, "consumer");

  report = Waiting();
  report.decode.busy = report.read.busy = 20;
  report.blocks_read_again = 6;
  EXPECT_EQ(Diagnose(report).stage, "memory");
  report.blocks_read_again = 5;
  EXPECT_EQ(Diagnose(report).stage, "decode");

  report = Waiting();
  report.decode.busy = 18, report.decode.starved = 2;
  report.read.busy = 2, report.read.blocked = 18;
  EXPECT_EQ(Diagnose(report).stage, "decode");

  report = Waiting();
  report.decode.busy = 2, report.decode.starved = 18;
  report.read.busy = 19, report.read.blocked = 1;
  report.file_seconds = 15;
  EXPECT_EQ(Diagnose(report).stage, "read");
  EXPECT_NE(Diagnose(report).advice.find("device"), std::string::npos);
  report.remote = true;  // has neither a device nor read modes
  EXPECT_EQ(Diagnose(report).advice.find("device"), std::string::npos);
  EXPECT_EQ(Diagnose(report).advice.find("read.mode"), std::string::npos);
  report.remote = false;
  report.file_seconds = 3;
  EXPECT_EQ(Diagnose(report).stage, "read");
  EXPECT_NE(Diagnose(report).advice.find("decompressing"), std::string::npos);

  report = Waiting();
  report.decode.busy = 2, report.decode.starved = 18;
  report.read.busy = 1, report.read.blocked = 19;
  EXPECT_EQ(Diagnose(report).stage, "overhead");
}

TEST(Diagnose, TotalsAreOfBothLoaders) {
  LoaderReport first = Waiting(), second = Waiting();
  first.first_batch_seconds = 3;
  second.first_batch_seconds = 1;
  first.peak_block_memory = 7;
  second.peak_block_memory = 5;
  second.block_memory = 2;
  first.clumped_columns = {"a", "b"};
  second.clumped_columns = {"b", "c"};
  first.decode.busy = 2, second.decode.busy = 3;
  const LoaderReport total = Total(first, second);
  EXPECT_EQ(total.batches, 200u);
  EXPECT_EQ(total.step_seconds, 20);
  EXPECT_EQ(total.wait_share(), 0.5);
  EXPECT_EQ(total.first_batch_seconds, 3);
  EXPECT_EQ(total.peak_block_memory, 7u);
  EXPECT_EQ(total.block_memory, 2u);
  EXPECT_EQ(total.decode.busy, 5);
  EXPECT_EQ(total.decode.threads, 2);
  EXPECT_EQ(total.clumped_columns, (std::vector<std::string>{"b", "c", "a"}));
  EXPECT_EQ(Total(LoaderReport(), second).first_batch_seconds, 1);
}

}  // namespace
}  // namespace shardkit
