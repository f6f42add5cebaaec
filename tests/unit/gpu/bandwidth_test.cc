// Measurements on the host device: tests that there are figures and that they are possible, not how large they are.
#include "gpu/bandwidth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace shardkit::gpu {
namespace {

constexpr uint64_t kSmall = 65536;
constexpr uint64_t kTooLarge = uint64_t{1} << 52;

std::shared_ptr<Backend> Host() { return *OpenDevice("emulated"); }

bool IsFigure(double value) { return std::isfinite(value) && value > 0; }

TEST(BandwidthTest, CopiesOfEveryKind) {
  const Cancellation none;
  for (const CopyKind kind : {CopyKind::kHostToDevice, CopyKind::kDeviceToHost, CopyKind::kDeviceToDevice}) {
    for (const bool pinned : {false, true}) {
      for (const uint64_t bytes : {kSmall - 1, kSmall}) {
        const auto rate = MeasureCopy(Host(), bytes, kind, pinned, none);
        ASSERT_TRUE(rate.ok()) << rate.status();
        EXPECT_TRUE(IsFigure(*rate)) << *rate;
      }
    }
  }
}

TEST(BandwidthTest, Uploads) {
  const Cancellation none;
  // Also sizes that a ring may have to round up.
  for (const uint64_t bytes : {kSmall, 5 * kSmall + 1, 700 * kSmall - 4096}) {
    const auto figures = MeasureUploads(Host(), bytes, none);
    ASSERT_TRUE(figures.ok()) << figures.status();
    EXPECT_TRUE(IsFigure(figures->ring));
    EXPECT_TRUE(IsFigure(figures->plain));
    EXPECT_TRUE(IsFigure(figures->ratio));
  }
}

TEST(BandwidthTest, Overlap) {
  const Cancellation none;
  const auto figures = MeasureOverlap(Host(), kSmall, none);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_TRUE(IsFigure(figures->transfer_seconds));
  EXPECT_TRUE(IsFigure(figures->work_seconds));
  EXPECT_TRUE(IsFigure(figures->both_seconds));
  EXPECT_GE(figures->score, 0);
  EXPECT_LE(figures->score, 1);
}

TEST(BandwidthTest, Masks) {
  const Cancellation none;
  for (const MaskSetup setup : {MaskSetup{5, 150, 225, 40}, MaskSetup{1, 16, 1, 1}, MaskSetup{3, 200, 333, 333}}) {
    const auto figures = MeasureMasks(Host(), setup, none);
    ASSERT_TRUE(figures.ok()) << figures.status();
    EXPECT_EQ(figures->dense_bytes, uint64_t{setup.count} * setup.height * setup.width);
    EXPECT_EQ(figures->run_bytes, uint64_t{setup.count} * (2 * setup.columns + 1) * sizeof(uint32_t));
    for (const double seconds :
         {figures->rasterize_seconds, figures->fill_seconds, figures->runs_seconds, figures->dense_seconds}) {
      EXPECT_TRUE(IsFigure(seconds));
    }
    EXPECT_TRUE(IsFigure(figures->rasterize_ratio()));
    EXPECT_TRUE(IsFigure(figures->speedup()));
  }
}

TEST(BandwidthTest, RefusesWhatIsNoMeasurement) {
  const Cancellation none;
  EXPECT_TRUE(absl::IsInvalidArgument(MeasureCopy(Host(), 0, CopyKind::kHostToDevice, true, none).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MeasureUploads(Host(), 0, none).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MeasureOverlap(Host(), 0, none).status()));
  for (const MaskSetup setup : {MaskSetup{0, 100, 100, 10}, MaskSetup{1, 15, 100, 10}, MaskSetup{1, 100, 100, 0},
                                MaskSetup{1, 100, 100, 101}, MaskSetup{1, 1u << 20, 1u << 20, 10}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MeasureMasks(Host(), setup, none).status()));
  }
}

TEST(BandwidthTest, SizesWithoutMemoryAreResourceExhausted) {
  const Cancellation none;
  for (const uint64_t bytes : {kTooLarge, UINT64_MAX}) {
    for (const bool pinned : {false, true}) {
      EXPECT_TRUE(
          absl::IsResourceExhausted(MeasureCopy(Host(), bytes, CopyKind::kHostToDevice, pinned, none).status()));
    }
    EXPECT_TRUE(absl::IsResourceExhausted(MeasureUploads(Host(), bytes, none).status()));
    EXPECT_TRUE(absl::IsResourceExhausted(MeasureOverlap(Host(), bytes, none).status()));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(MeasureMasks(Host(), {UINT32_MAX, 1500, 2250, 209}, none).status()));
}

TEST(BandwidthTest, Cancelled) {
  Cancellation cancelled;
  cancelled.Cancel();
  EXPECT_EQ(MeasureCopy(Host(), kSmall, CopyKind::kHostToDevice, true, cancelled).status(),
            absl::CancelledError("cancelled while measuring copies"));
  EXPECT_TRUE(absl::IsCancelled(MeasureUploads(Host(), kSmall, cancelled).status()));
  EXPECT_EQ(MeasureOverlap(Host(), kSmall, cancelled).status(),
            absl::CancelledError("cancelled while calibrating the work of an overlap"));
  EXPECT_TRUE(absl::IsCancelled(MeasureMasks(Host(), {2, 100, 100, 10}, cancelled).status()));
  EXPECT_EQ(MeasureDevice("emulated", {{kSmall}, {}}, cancelled).status(),
            absl::CancelledError("cancelled while measuring the device"));
}

TEST(BandwidthTest, CancelledUnderWay) {
  Cancellation cancellation;
  uint64_t calls = 0;
  const auto measured =
      MeasureDevice("emulated", {{kSmall, kSmall}, {kSmall}}, cancellation, [&](uint64_t done, uint64_t total) {
        EXPECT_EQ(total, 11u);
        ++calls;
        if (done == 1) cancellation.Cancel();
      });
  EXPECT_TRUE(absl::IsCancelled(measured.status())) << measured.status();
  EXPECT_EQ(calls, 2u);
}

TEST(BandwidthTest, WholeDeviceWithSizesSkipped) {
  const Cancellation none;
  std::vector<uint64_t> steps;
  const auto measured = MeasureDevice("emulated", {{kSmall, kTooLarge}, {kTooLarge, kSmall}}, none,
                                      [&](uint64_t done, uint64_t) { steps.push_back(done); });
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(steps.size(), 12u);
  ASSERT_EQ(measured->copies.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const CopyMeasurement& copy = measured->copies[i];
    EXPECT_EQ(copy.bytes, i < 4 ? kSmall : kTooLarge);
    EXPECT_EQ(copy.to_device, i % 4 < 2);
    EXPECT_EQ(copy.pinned, i % 2 == 1);
    EXPECT_EQ(copy.skipped.empty(), i < 4) << copy.skipped;
    EXPECT_EQ(IsFigure(copy.bytes_per_second), i < 4);
  }
  ASSERT_EQ(measured->uploads.size(), 2u);
  EXPECT_EQ(measured->uploads[0].skipped, "");
  EXPECT_NE(measured->uploads[1].skipped, "");
  ASSERT_EQ(measured->overlaps.size(), 2u);
  EXPECT_NE(measured->overlaps[0].skipped, "");
  EXPECT_EQ(measured->overlaps[1].skipped, "");
}

}  // namespace
}  // namespace shardkit::gpu
