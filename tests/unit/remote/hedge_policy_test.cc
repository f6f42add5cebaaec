// When a second request is worth it.
#include "remote/http/retrying_client.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

TEST(HedgePolicyTest, WaitsForEnoughRequestsOfTheSize) {
  HedgePolicy policy;
  for (int i = 0; i < 19; ++i) policy.Record(8 << 20, milliseconds(10));
  EXPECT_FALSE(policy.HedgeAfter(8 << 20));
  for (int i = 19; i < 99; ++i) policy.Record(8 << 20, milliseconds(10));
  EXPECT_EQ(policy.HedgeAfter(8 << 20), milliseconds(110)) << "too few to know the slowest of a hundred";
  policy.Record(8 << 20, milliseconds(10));
  EXPECT_EQ(policy.HedgeAfter(8 << 20), milliseconds(10));
  EXPECT_FALSE(policy.HedgeAfter(4096)) << "another size";
  EXPECT_FALSE(policy.HedgeAfter(0));
  EXPECT_FALSE(policy.HedgeAfter(~uint64_t{0}));
}

TEST(HedgePolicyTest, TakesTheSlowestOfAHundred) {
  HedgePolicy policy;
  for (int i = 1; i <= 1000; ++i) policy.Record(1000, milliseconds(i));
  // Of the latest 200, which are 801 to 1000, two are slower than 998.
  EXPECT_EQ(policy.HedgeAfter(1000), milliseconds(998));
}

TEST(HedgePolicyTest, DoesNotTakeStallsForUsualWhenTheyAreMany) {
  HedgePolicy policy;
  for (int i = 0; i < 200; ++i) policy.Record(1000, milliseconds(i % 20 == 0 ? 2000 : 20));
  EXPECT_EQ(policy.HedgeAfter(1000), milliseconds(120));
  for (int i = 0; i < 200; ++i) policy.Record(1000, milliseconds(i % 20 == 0 ? 2000 : 100));
  EXPECT_EQ(policy.HedgeAfter(1000), milliseconds(400));
}

TEST(HedgePolicyTest, SpendsOneInTwenty) {
  HedgePolicy policy;
  EXPECT_FALSE(policy.Spend());
  int spent = 0;
  for (int i = 0; i < 10'000; ++i) {
    policy.Begin();
    spent += policy.Spend();
  }
  EXPECT_EQ(spent, 500);
  for (int i = 0; i < 10'000; ++i) policy.Begin();
  for (spent = 0; policy.Spend(); ++spent) {
  }
  EXPECT_EQ(spent, 10) << "unspent budget does not pile up";
}

}  // namespace
}  // namespace shardkit::remote
