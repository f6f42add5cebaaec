// Who is let in, and who is not.
#include "view/guard.h"

#include <gtest/gtest.h>

#include "absl/strings/ascii.h"

namespace shardctl {
namespace {

TEST(GuardTest, TokensDiffer) {
  EXPECT_EQ(Guard::NewToken().size(), 32);
  EXPECT_NE(Guard::NewToken(), Guard::NewToken());
}

TEST(GuardTest, OnlyNamesOfThisMachineAreAnswered) {
  const Guard guard("t", "127.0.0.1", 8000);
  for (const std::string_view host : {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"})
    EXPECT_TRUE(guard.KnowsHost(host)) << host;
  for (const std::string_view host : {"", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:80000", "evil.example:8000",
                                      "192.0.2.1:8000", "localhost.evil.example:8000", ":8000"}) {
    EXPECT_FALSE(guard.KnowsHost(host)) << host;
  }
}

TEST(GuardTest, WithAnotherHostAddressesAreAnswered) {
  const Guard guard("t", "0.0.0.0", 8000);
  for (const std::string_view host : {"0.0.0.0:8000", "192.0.2.1:8000", "[2001:db8::1]:8000", "localhost:8000"})
    EXPECT_TRUE(guard.KnowsHost(host)) << host;
  for (const std::string_view host : {"evil.example:8000", "192.0.2.1.evil.example:8000", "[evil]:8000"})
    EXPECT_FALSE(guard.KnowsHost(host)) << host;
}

TEST(GuardTest, TheUrlIsOneThatIsAnswered) {
  EXPECT_EQ(Guard("t", "127.0.0.1", 80).Url(), "http://127.0.0.1:80/?token=t");
  EXPECT_EQ(Guard("t", "[2001:db8::1]", 8000).Url(), "http://[2001:db8::1]:8000/?token=t");
  for (const std::string host : {"0.0.0.0", "[::]", "Node7", "[::1]"}) {
    const Guard guard("t", host, 8000);
    const std::string url = guard.Url();
    EXPECT_EQ(url.find("0.0.0.0"), url.npos);
    EXPECT_EQ(url.find("[::]"), url.npos);
    // As a browser sends it.
    EXPECT_TRUE(guard.KnowsHost(absl::AsciiStrToLower(url.substr(7, url.find("/?") - 7)))) << url;
  }
}

TEST(GuardTest, OtherPagesAreNotAnswered) {
  const Guard guard("t", "127.0.0.1", 8000);
  EXPECT_TRUE(guard.KnowsOrigin("", "127.0.0.1:8000"));
  EXPECT_TRUE(guard.KnowsOrigin("http://127.0.0.1:8000", "127.0.0.1:8000"));
  EXPECT_FALSE(guard.KnowsOrigin("http://evil.example", "127.0.0.1:8000"));
  EXPECT_FALSE(guard.KnowsOrigin("http://127.0.0.1:8001", "127.0.0.1:8000"));
  EXPECT_FALSE(guard.KnowsOrigin("null", "127.0.0.1:8000"));
}

TEST(GuardTest, TheCookieIsFoundAmongOthers) {
  const Guard guard("0123abcd", "127.0.0.1", 8000);
  EXPECT_TRUE(guard.KnowsCookie("shardkit-view-8000=0123abcd"));
  EXPECT_TRUE(guard.KnowsCookie("a=b; shardkit-view-8000=0123abcd; c=d"));
  // Browsers send those of other ports, and an older one of this port.
  EXPECT_TRUE(guard.KnowsCookie("shardkit-view-8001=0123abce; shardkit-view-8000=old; shardkit-view-8000=0123abcd"));
  for (const std::string_view cookies :
       {"", "=", ";;", "shardkit-view-8000=", "shardkit-view-8000=0123abce", "shardkit-view-8001=0123abcd",
        "x-shardkit-view-8000=0123abcd", "shardkit-view-8000=0123abcdef"}) {
    EXPECT_FALSE(guard.KnowsCookie(cookies)) << cookies;
  }
  EXPECT_EQ(guard.Cookie(), "shardkit-view-8000=0123abcd; Path=/; HttpOnly; SameSite=Strict");
}

}  // namespace
}  // namespace shardctl
