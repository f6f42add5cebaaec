#include "loader/engine/reader_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardkit::loader {
namespace {

// Runs the tuner with a storage that gives `rate` bytes per second for a number of threads, from time `now` on.
template <typename Rate>
int Settle(ReaderTuner& tuner, bool starving, bool device, Rate rate, double now = 0, uint64_t bytes = 0) {
  constexpr int blocks = 5000;
  for (int i = 0; i < blocks; ++i) {
    now += 1e6 / rate(tuner.threads());
    tuner.Update(now, bytes += 1000000, starving, device);
  }
  return tuner.threads();
}

double Scaling(int threads, int most) { return 1e8 * std::min(threads, most); }

TEST(ReaderTuner, ClimbsWhileADeviceGivesMore) {
  ReaderTuner tuner(true, 1, 2, 16);
  const int threads = Settle(tuner, true, true, [](int t) { return Scaling(t, 6); });
  EXPECT_GE(threads, 6);
  EXPECT_LE(threads, 7);  // sometimes one more is tried
}

TEST(ReaderTuner, StaysWithinTheProcessorsForMemory) {
  ReaderTuner tuner(true, 1, 2, 16);
  EXPECT_EQ(Settle(tuner, true, false, [](int t) { return Scaling(t, 16); }), 2);
}

TEST(ReaderTuner, ComesBackWhenTheDeviceIsNoLongerWaitedFor) {
  ReaderTuner tuner(true, 1, 2, 16);
  ASSERT_GT(Settle(tuner, true, true, [](int t) { return Scaling(t, 16); }), 8);
  EXPECT_EQ(Settle(
                tuner, false, false, [](int t) { return Scaling(t, 16); }, 1000, uint64_t{5000} * 1000000),
            2);
}

TEST(ReaderTuner, LeavesWellAlone) {
  ReaderTuner idle(true, 1, 8, 16);
  EXPECT_EQ(Settle(idle, false, true, [](int t) { return Scaling(t, 16); }), 1);
  ReaderTuner off(false, 3, 8, 16);
  EXPECT_EQ(Settle(off, true, true, [](int t) { return Scaling(t, 16); }), 3);
}

}  // namespace
}  // namespace shardkit::loader
