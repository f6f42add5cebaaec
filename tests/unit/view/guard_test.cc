// Who is let in, and who is not.
#include "view/guard.h"

#include <gtest/gtest.h>

#include "absl/strings/ascii.h"

namespace shardctl {
namespace {

TEST(GuardTest, SecretsDiffer) {
  const Guard a("127.0.0.1", 8000), b("127.0.0.1", 8000);
  EXPECT_NE(a.Url(), b.Url());
  EXPECT_NE(a.Cookie(), b.Cookie());
  EXPECT_NE(a.Folder(), b.Folder());
}

TEST(GuardTest, OnlyNamesOfThisMachineAreAnswered) {
  const Guard guard("127.0.0.1", 8000);
  for (const std::string_view host : {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"})
    EXPECT_TRUE(guard.KnowsHost(host)) << host;
  for (const std::string_view host : {"", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:80000", "evil.example:8000",
                                      "192.0.2.1:8000", "localhost.evil.example:8000", ":8000"}) {
    EXPECT_FALSE(guard.KnowsHost(host)) << host;
  }
}

TEST(GuardTest, WithAnotherHostAddressesAreAnswered) {
  const Guard guard("0.0.0.0", 8000);
  for (const std::string_view host : {"0.0.0.0:8000", "192.0.2.1:8000", "[2001:db8::1]:8000", "localhost:8000"})
    EXPECT_TRUE(guard.KnowsHost(host)) << host;
  for (const std::string_view host : {"evil.example:8000", "192.0.2.1.evil.example:8000", "[evil]:8000"})
    EXPECT_FALSE(guard.KnowsHost(host)) << host;
}

TEST(GuardTest, TheUrlIsOneThatIsAnswered) {
  EXPECT_TRUE(Guard("127.0.0.1", 80).Url().starts_with("http://127.0.0.1:80/?token="));
  EXPECT_TRUE(Guard("[2001:db8::1]", 8000).Url().starts_with("http://[2001:db8::1]:8000/?token="));
  for (const std::string host : {"0.0.0.0", "[::]", "Node7", "[::1]"}) {
    const Guard guard(host, 8000);
    const std::string url = guard.Url();
    EXPECT_EQ(url.find("0.0.0.0"), url.npos);
    EXPECT_EQ(url.find("[::]"), url.npos);
    // As a browser sends it.
    EXPECT_TRUE(guard.KnowsHost(absl::AsciiStrToLower(url.substr(7, url.find("/?") - 7)))) << url;
  }
}

TEST(GuardTest, OtherPagesAreNotAnswered) {
  const Guard guard("127.0.0.1", 8000);
  EXPECT_TRUE(guard.KnowsOrigin("", "127.0.0.1:8000"));
  EXPECT_TRUE(guard.KnowsOrigin("http://127.0.0.1:8000", "127.0.0.1:8000"));
  EXPECT_FALSE(guard.KnowsOrigin("http://evil.example", "127.0.0.1:8000"));
  EXPECT_FALSE(guard.KnowsOrigin("http://127.0.0.1:8001", "127.0.0.1:8000"));
  EXPECT_FALSE(guard.KnowsOrigin("null", "127.0.0.1:8000"));
}

TEST(GuardTest, TheCookieIsFoundAmongOthers) {
  const Guard guard("127.0.0.1", 8000);
  const std::string cookie = guard.Cookie().substr(0, guard.Cookie().find(';'));
  const std::string value = cookie.substr(cookie.find('=') + 1);
  EXPECT_EQ(value.size(), 32u);
  EXPECT_TRUE(guard.KnowsCookie(cookie));
  // Browsers send those of other ports, and an older one of this port.
  EXPECT_TRUE(guard.KnowsCookie("a=b; shardkit-view-8000=old; " + cookie + "; c=d"));
  const std::string token = guard.Url().substr(guard.Url().find("token=") + 6);
  EXPECT_TRUE(guard.KnowsToken(token));
  EXPECT_FALSE(guard.KnowsToken(value));
  for (const std::string& cookies :
       {std::string(), std::string("="), std::string(";;"), std::string("shardkit-view-8000="),
        "shardkit-view-8001=" + value, "x-" + cookie, cookie + "0", "shardkit-view-8000=" + token,
        cookie.substr(0, cookie.size() - 1)}) {
    EXPECT_FALSE(guard.KnowsCookie(cookies)) << cookies;
  }
}

}  // namespace
}  // namespace shardctl
