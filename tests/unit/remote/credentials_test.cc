// Credentials that are kept and fetched again in time.
#include "remote/credentials/credentials.h"

#include <atomic>
#include <future>
#include <thread>

#include "base/errors.h"

namespace shardkit::remote {
namespace {

using std::chrono::minutes;
using Time = std::chrono::system_clock::time_point;

struct CountingSource {
  absl::StatusOr<std::optional<Credentials>> Fetch() {
    ++calls;
    if (gate != nullptr) gate->get_future().wait();
    if (fails) return Unavailable("no answer");
    Credentials credentials;
    credentials.keys.key_id = "K" + std::to_string(calls);
    credentials.expiry = Time() + minutes(60 * calls);
    return credentials;
  }

  std::atomic<int> calls = 0;
  std::atomic<bool> fails = false;
  std::promise<void>* gate = nullptr;
};

struct Fixture {
  std::atomic<int> minute = 0;
  CountingSource source;
  CredentialCache cache{[this] { return source.Fetch(); }, [this] { return Time() + minutes(minute); }};
};

TEST(CredentialsTest, Accounts) {
  const auto of = [](const std::string& id) { return AccountOf({{id, "SECRET", {}}, {}, {}}); };
  EXPECT_EQ(of("ASIAQNZGKIQY56JQ7WML"), "29608264753");
  EXPECT_EQ(of("AKIAQNZGKIQY5AAAAAAA"), "29608264753");
  EXPECT_EQ(of("minio"), "minio");
  EXPECT_EQ(of("AKIA0000000000000000"), "AKIA0000000000000000") << "no digits of such a number";
  EXPECT_EQ(AccountOf({{}, "token", {}}), "");
  EXPECT_EQ(AccountOf({}), "");
}

TEST(CredentialCacheTest, FetchesAgainBeforeTheEnd) {
  Fixture fixture;
  EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K1");
  fixture.minute = 54;
  EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K1");
  fixture.minute = 55;
  EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K2");
  EXPECT_EQ(fixture.source.calls, 2);
}

TEST(CredentialCacheTest, AnErrorShowsWhenTheOldOnesHaveEnded) {
  Fixture fixture;
  ASSERT_TRUE(fixture.cache.Get().ok());
  fixture.source.fails = true;
  fixture.minute = 59;
  EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K1");
  fixture.minute = 60;
  EXPECT_TRUE(absl::IsUnavailable(fixture.cache.Get().status()));
  fixture.source.fails = false;
  fixture.minute = 0;
  EXPECT_TRUE(fixture.cache.Get().ok());
}

TEST(CredentialCacheTest, RefusedOnesAreReplacedOnceAndNotAtEachRefusal) {
  Fixture fixture;
  const Credentials first = *fixture.cache.Get();
  const Credentials second = *fixture.cache.Renew(first);
  EXPECT_EQ(second.keys.key_id, "K2");
  EXPECT_EQ(fixture.cache.Renew(first)->keys.key_id, "K2") << "was refused at the same time";
  EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K2");
  EXPECT_EQ(fixture.source.calls, 2);
  EXPECT_EQ(*fixture.cache.Renew(second), second) << "a moment ago there were no others";
  fixture.minute = 1;
  EXPECT_EQ(fixture.cache.Renew(second)->keys.key_id, "K3");
}

TEST(CredentialCacheTest, OneFetchesWhileOthersGoOn) {
  Fixture fixture;
  ASSERT_TRUE(fixture.cache.Get().ok());
  fixture.minute = 57;
  std::promise<void> gate;
  fixture.source.gate = &gate;
  std::thread fetching([&] { EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K2"); });
  while (fixture.source.calls < 2) std::this_thread::yield();
  EXPECT_EQ(fixture.cache.Get()->keys.key_id, "K1") << "does not wait";
  gate.set_value();
  fetching.join();
  EXPECT_EQ(fixture.source.calls, 2);
}

}  // namespace
}  // namespace shardkit::remote
