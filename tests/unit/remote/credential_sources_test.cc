// Where credentials are found, and how those that are not understood are refused.
#include "remote/credentials/credential_sources.h"

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "remote/credentials/profile_files.h"
#include "remote/credentials/run_command.h"
#include "remote/url.h"
#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

class CredentialSourcesTest : public testing::Test {
 protected:
  CredentialSourcesTest() {
    HttpClient::Options options;
    options.connect_timeout = std::chrono::milliseconds(500);
    http_ = *HttpClient::Create(options);
    environment_["HOME"] = "/home";
    environment_["AWS_EC2_METADATA_DISABLED"] = "true";
    environment_["GCE_METADATA_HOST"] = "127.0.0.1:1";
  }

  CredentialContext Context() {
    return {[this](const char* name) -> std::optional<std::string> {
              const auto found = environment_.find(name);
              return found == environment_.end() ? std::nullopt : std::optional(found->second);
            },
            files_.get(), http_.get()};
  }

  internal::Found Amazon() { return NewAmazonCredentials(Context())(); }

  void Write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(CreateDirectories(*files_, path.substr(0, path.rfind('/') + 1)).ok());
    auto file = files_->Create(path);
    ASSERT_TRUE(file.ok() && (*file)->Append(text).ok() && (*file)->Close().ok());
  }

  std::map<std::string, std::string> environment_;
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::unique_ptr<HttpClient> http_;
};

constexpr char kJson[] =
    R"({"Version": 1, "AccessKeyId": "ID", "SecretAccessKey": "SECRET", "Token": "TOKEN", "Expiration": "2026-11-23T01:00:00Z"})";
const auto kExpiry = std::chrono::system_clock::from_time_t(1795395600);

void ExpectJson(const internal::Found& found) {
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->keys.key_id, "ID");
  EXPECT_EQ((*found)->keys.secret_key, "SECRET");
  EXPECT_EQ((*found)->keys.session_token, "TOKEN");
  EXPECT_EQ((*found)->expiry, kExpiry);
}

TEST_F(CredentialSourcesTest, NothingIsAnonymous) {
  const auto amazon = Amazon();
  ASSERT_TRUE(amazon.ok()) << amazon.status();
  EXPECT_FALSE(amazon->has_value());
  EXPECT_FALSE(NewGoogleCredentials(Context())()->has_value());
  EXPECT_FALSE(NewHuggingFaceCredentials(Context())()->has_value());
}

TEST_F(CredentialSourcesTest, TheEnvironmentComesFirst) {
  Write("/home/.aws/credentials", "[default]\naws_access_key_id=P\naws_secret_access_key=Q\n");
  environment_["AWS_ACCESS_KEY_ID"] = "A";
  environment_["AWS_SECRET_ACCESS_KEY"] = "B";
  EXPECT_EQ((*Amazon())->keys.key_id, "A");
  environment_["AWS_NO_SIGN_REQUEST"] = "YES";
  EXPECT_FALSE(Amazon()->has_value());
  environment_.erase("AWS_NO_SIGN_REQUEST");
  environment_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ((*Amazon())->keys.key_id, "P");
}

TEST_F(CredentialSourcesTest, Profiles) {
  Write(
      "/c",
      "# a comment\n[default]\nregion = eu-west-1\n[profile work]\n  aws_access_key_id = wrong\nregion=us-west-2 \r\n"
      "s3 =\n  addressing_style = path\n[sso-session x]\nregion = no\n[profile login]\nsso_session = x\n[profile run]\n"
      "credential_process = echo '" +
          std::string(kJson) +
          "'\n[profile broken]\ncredential_process = echo SECRET; echo a line >&2; echo the reason >&2; exit 3");
  Write("/k", "[work]\naws_access_key_id = I\naws_secret_access_key = a=b+/\naws_session_token = T");
  environment_["AWS_CONFIG_FILE"] = "/c";
  environment_["AWS_SHARED_CREDENTIALS_FILE"] = "/k";
  EXPECT_FALSE(Amazon()->has_value());
  EXPECT_EQ(LoadProfile(Context().environment, *files_, "default")->at("region"), "eu-west-1");
  EXPECT_EQ(LoadProfile(Context().environment, *files_, "work")->at("s3.addressing_style"), "path");
  environment_["AWS_PROFILE"] = "work";
  EXPECT_EQ((*Amazon())->keys.secret_key, "a=b+/");
  EXPECT_EQ((*Amazon())->keys.session_token, "T");
  EXPECT_EQ(LoadProfile(Context().environment, *files_, "work")->at("region"), "us-west-2");
  environment_["AWS_PROFILE"] = "run";
  ExpectJson(Amazon());
  environment_["AWS_PROFILE"] = "broken";
  const absl::Status broken = Amazon().status();
  EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
  EXPECT_EQ(broken.ToString().find("SECRET"), std::string::npos) << broken;
  EXPECT_NE(broken.ToString().find("failed with status 3: \"the reason\""), std::string::npos) << broken;
  environment_["AWS_PROFILE"] = "login";
  const absl::Status login = Amazon().status();
  EXPECT_TRUE(absl::IsUnimplemented(login));
  EXPECT_NE(login.ToString().find("credential_process = aws configure export-credentials --profile login"),
            std::string::npos)
      << login;
  environment_["AWS_PROFILE"] = "missing";
  EXPECT_TRUE(absl::IsNotFound(Amazon().status()));
  environment_.erase("AWS_PROFILE");
  environment_["AWS_DEFAULT_PROFILE"] = "work";
  EXPECT_EQ((*Amazon())->keys.key_id, "I");
}

TEST_F(CredentialSourcesTest, AddressesOfServices) {
  Write("/c",
        "[default]\nendpoint_url = http://all\n[profile minio]\nservices = mine\nendpoint_url = http://profile\n"
        "[services mine]\ns3 =\n  endpoint_url = http://minio:9000/\ndynamodb =\n\tendpoint_url = http://other\n"
        "[services others]\ns3 =\n  endpoint_url = http://elsewhere\n[profile off]\nservices = mine\n"
        "ignore_configured_endpoint_urls = true\n[profile wrong]\nendpoint_url = minio\n");
  environment_["AWS_CONFIG_FILE"] = "/c";
  const auto address = [this](const char* profile, const char* service) {
    return EndpointOf(Context().environment, *LoadProfile(Context().environment, *files_, profile), service);
  };
  EXPECT_EQ(*address("default", "s3"), "http://all");
  EXPECT_EQ(*address("minio", "s3"), "http://minio:9000");
  EXPECT_EQ(*address("minio", "sts"), "http://profile");
  EXPECT_EQ(*address("off", "s3"), "");
  EXPECT_TRUE(absl::IsInvalidArgument(address("wrong", "s3").status()));
  environment_["AWS_ENDPOINT_URL"] = "http://variable";
  EXPECT_EQ(*address("minio", "s3"), "http://variable");
  environment_["AWS_ENDPOINT_URL_S3"] = "http://variable.s3";
  EXPECT_EQ(*address("minio", "s3"), "http://variable.s3");
  EXPECT_EQ(*address("minio", "sts"), "http://variable");
  EXPECT_EQ(*address("off", "s3"), "");
  environment_["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(*address("minio", "s3"), "");
  environment_["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "True";
  EXPECT_EQ(*address("minio", "s3"), "");
  environment_["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false";
  EXPECT_EQ(*address("off", "s3"), "http://variable.s3");
}

TEST_F(CredentialSourcesTest, SettingsThatLeadElsewhereAreRefusedByName) {
  for (const std::string setting : {"use_fips_endpoint", "use_dualstack_endpoint", "sigv4a_signing_region_set"}) {
    EXPECT_NE(CheckSettings(Context().environment, {{setting, "true"}}).ToString().find(setting), std::string::npos);
    const std::string variable = "AWS_" + absl::AsciiStrToUpper(setting);
    environment_[variable] = "true";
    EXPECT_NE(CheckSettings(Context().environment, {}).ToString().find(variable), std::string::npos);
    environment_[variable] = "false";
  }
  EXPECT_TRUE(absl::IsUnimplemented(CheckSettings(Context().environment, {{"s3.use_accelerate_endpoint", "true"}})));
  EXPECT_TRUE(CheckSettings(Context().environment, {{"use_fips_endpoint", "False"}, {"max_attempts", "3"}}).ok());
}

TEST_F(CredentialSourcesTest, RolesOfProfiles) {
  TestServer server([](const ServedRequest& request) {
    const auto found = request.headers.find("authorization");
    const std::string asked = found == request.headers.end() ? "" : found->second;
    // The role of the role has a name of its own.
    const std::string id = asked.find("Credential=FIRST/") != std::string::npos ? "ID" : "FIRST";
    return ServedAnswer{200,
                        {},
                        "<R><AssumeRoleResult><Credentials><AccessKeyId>" + id +
                            "</AccessKeyId><SecretAccessKey>SECRET</SecretAccessKey><SessionToken>TOKEN</SessionToken>"
                            "<Expiration>2026-11-23T01:00:00Z</Expiration></Credentials></AssumeRoleResult></R>",
                        {},
                        {},
                        false};
  });
  Write("/c",
        "[profile train]\nrole_arn = arn:1\nsource_profile = middle\nregion = eu-west-1\n"
        "[profile middle]\nrole_arn = arn:0\nsource_profile = base\nexternal_id = E\nduration_seconds = 900\n"
        "[profile loop]\nrole_arn = arn:2\nsource_profile = pool\n[profile pool]\nrole_arn = arn:3\n"
        "source_profile = loop\n[profile mfa]\nrole_arn = arn:4\nsource_profile = base\nmfa_serial = 7\n"
        "[profile token]\nrole_arn = arn:5\nweb_identity_token_file = /jwt\n[profile alone]\nrole_arn = arn:6\n"
        "[profile gone]\nrole_arn = arn:7\nsource_profile = nobody\n[profile variables]\nrole_arn = arn:8\n"
        "credential_source = Environment\n");
  Write("/k", "[base]\naws_access_key_id = BASE\naws_secret_access_key = KEY\n");
  Write("/jwt", "J");
  environment_["AWS_CONFIG_FILE"] = "/c";
  environment_["AWS_SHARED_CREDENTIALS_FILE"] = "/k";
  environment_["AWS_ENDPOINT_URL_STS"] = server.origin();
  environment_["AWS_PROFILE"] = "train";
  ExpectJson(Amazon());
  ASSERT_EQ(server.requests().size(), 2u);
  const ServedRequest first = server.requests()[0], second = server.requests()[1];
  EXPECT_EQ(first.body,
            "Action=AssumeRole&DurationSeconds=900&ExternalId=E&RoleArn=arn%3A0&RoleSessionName=shardkit&"
            "Version=2011-06-15");
  EXPECT_EQ(first.headers.at("authorization").find("AWS4-HMAC-SHA256 Credential=BASE/"), 0u);
  EXPECT_NE(second.headers.at("authorization").find("/eu-west-1/sts/aws4_request"), std::string::npos);
  EXPECT_EQ(second.headers.at("x-amz-security-token"), "TOKEN");
  const std::pair<std::string, std::string> refused[] = {{"loop", "source_profile"},
                                                         {"mfa", "mfa_serial"},
                                                         {"alone", "credential_source"},
                                                         {"gone", "nobody"},
                                                         {"variables", "no credentials"}};
  for (const auto& [profile, why] : refused) {
    environment_["AWS_PROFILE"] = profile;
    EXPECT_NE(Amazon().status().ToString().find(why), std::string::npos) << profile << Amazon().status();
  }
  environment_["AWS_PROFILE"] = "token";
  EXPECT_EQ((*Amazon())->keys.key_id, "FIRST");
  EXPECT_NE(server.requests().back().body.find("WebIdentityToken=J"), std::string::npos);
}

TEST_F(CredentialSourcesTest, Container) {
  TestServer server([](const ServedRequest& request) {
    return ServedAnswer{
        request.headers.contains("authorization") && request.headers.at("authorization") == "T" ? 200 : 403,
        {},
        kJson,
        {},
        {},
        false};
  });
  environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.origin() + "/creds?x=1";
  EXPECT_TRUE(absl::IsPermissionDenied(Amazon().status()));
  Write("/token", "T\n");
  environment_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/token";
  ExpectJson(Amazon());
  for (const char* url : {"http://example.com/", "http://127.0.0.1.example.com/", "http://127.0.0.1@example.com/"}) {
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    EXPECT_TRUE(absl::IsInvalidArgument(Amazon().status())) << url;
  }
}

TEST_F(CredentialSourcesTest, InstanceNeedsAToken) {
  TestServer server([](const ServedRequest& request) {
    if (request.method == "PUT" && request.target == "/latest/api/token")
      return ServedAnswer{200, {}, "TOKEN", {}, {}, false};
    const auto token = request.headers.find("x-aws-ec2-metadata-token");
    if (token == request.headers.end() || token->second != "TOKEN") return ServedAnswer{401, {}, "", {}, {}, false};
    if (request.target == "/latest/meta-data/iam/security-credentials/")
      return ServedAnswer{200, {}, "role", {}, {}, false};
    if (request.target == "/latest/meta-data/iam/security-credentials/role")
      return ServedAnswer{200, {}, kJson, {}, {}, false};
    return ServedAnswer{404, {}, "", {}, {}, false};
  });
  environment_.erase("AWS_EC2_METADATA_DISABLED");
  environment_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.origin();
  ExpectJson(Amazon());
  environment_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1";
  EXPECT_FALSE(Amazon()->has_value()) << "no instance";
}

TEST_F(CredentialSourcesTest, WebIdentity) {
  TestServer server([](const ServedRequest&) {
    return ServedAnswer{
        200,
        {},
        R"(<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>)"
        "<SessionToken>TOKEN</SessionToken><SecretAccessKey>SECRET</SecretAccessKey>"
        "<Expiration>2026-11-23T01:00:00Z</Expiration><AccessKeyId>ID</AccessKeyId></Credentials>"
        "</AssumeRoleWithWebIdentityResult></R>",
        {},
        {},
        false};
  });
  environment_["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/jwt";
  environment_["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  environment_["AWS_ENDPOINT_URL_STS"] = server.origin();
  EXPECT_TRUE(absl::IsNotFound(Amazon().status()));
  Write("/jwt", "e=Y+");
  ExpectJson(Amazon());
  const ServedRequest request = server.requests().at(0);
  EXPECT_EQ(request.target, "/") << "the token is not in the URL";
  EXPECT_EQ(request.body,
            "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=shardkit&"
            "Version=2011-06-15&WebIdentityToken=e%3DY%2B");
}

TEST_F(CredentialSourcesTest, Google) {
  TestServer server([](const ServedRequest& request) {
    return ServedAnswer{request.headers.contains("metadata-flavor") ? 200 : 403,
                        {},
                        R"({"access_token":"B","expires_in":3600})",
                        {},
                        {},
                        false};
  });
  const auto fetch = [this] { return NewGoogleCredentials(Context())(); };
  environment_["GOOGLE_APPLICATION_CREDENTIALS"] = "/key.json";
  EXPECT_TRUE(absl::IsUnimplemented(fetch().status()));
  environment_["GCE_METADATA_HOST"] = server.origin().substr(7);
  EXPECT_EQ((*fetch())->bearer_token, "B");
  EXPECT_TRUE((*fetch())->expiry.has_value());
  environment_["GOOGLE_OAUTH_ACCESS_TOKEN"] = "A";
  EXPECT_EQ((*fetch())->bearer_token, "A");
  environment_["GS_ACCESS_KEY_ID"] = "I";
  environment_["GS_SECRET_ACCESS_KEY"] = "S";
  EXPECT_EQ((*fetch())->keys.key_id, "I");
}

TEST_F(CredentialSourcesTest, HuggingFace) {
  Write("/home/.cache/huggingface/token", "hf_file\n");
  EXPECT_EQ((*NewHuggingFaceCredentials(Context())())->bearer_token, "hf_file");
  environment_["HF_TOKEN"] = "hf_variable";
  EXPECT_EQ((*NewHuggingFaceCredentials(Context())())->bearer_token, "hf_variable");
}

TEST(CredentialTimeTest, IsOfRfc3339) {
  const auto milliseconds = [](const char* text) -> int64_t {
    const auto time = internal::ParseTime(text);
    return time ? std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count() : -1;
  };
  for (const char* text : {"2026-11-23T01:02:03Z", "2026-11-23T01:02:03+00:00", "2026-11-23T03:32:03+02:30"}) {
    EXPECT_EQ(milliseconds(text), 1'795'395'723'000) << text;
  }
  EXPECT_EQ(milliseconds("2026-11-23T01:02:03.25Z"), 1'795'395'723'250);
  for (const char* text : {"", "soon", "2026-11-23", "2026-11-23T01:02:03", "2026-13-23T01:02:03Z", "infinite-future",
                           "2026-11-23T01:02:03Zx", "1795395723"}) {
    EXPECT_EQ(milliseconds(text), -1) << text;
  }
}

TEST_F(CredentialSourcesTest, RefusesBrokenJsonWithoutQuotingIt) {
  for (const char* text :
       {"", "{", "[]", "\"SECRET\"", R"({"AccessKeyId":"SECRET"})", R"({"AccessKeyId":1,"SecretAccessKey":"SECRET"})",
        R"({"AccessKeyId":"A","SecretAccessKey":"SECRET","Expiration":"soon"})"}) {
    const absl::Status status = internal::ParseCredentialsJson(text).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << text;
    EXPECT_EQ(status.ToString().find("SECRET\""), std::string::npos) << status;
  }
}

TEST(RunCommandTest, EndsAtTheDeadlineAndLimitsTheOutput) {
  using std::chrono::milliseconds;
  EXPECT_EQ(*RunCommand("printf a; echo b >&2", milliseconds(10'000)), "a");
  EXPECT_TRUE(absl::IsDeadlineExceeded(RunCommand("sleep 600 & sleep 600", milliseconds(20)).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(RunCommand("yes", milliseconds(10'000)).status()));
  const auto why = [](const char* command) { return RunCommand(command, milliseconds(10'000)).status().ToString(); };
  EXPECT_EQ(why("exit 1"), "UNAVAILABLE: it failed with status 1");
  EXPECT_EQ(why("kill -9 $$"), "UNAVAILABLE: signal 9 ended it");
  EXPECT_EQ(why("seq 100000 >&2; printf 'the last\\n\\n' >&2; exit 2"),
            "UNAVAILABLE: it failed with status 2: \"the last\"");
  EXPECT_EQ(*RunCommand("printf a; exec >&-; seq 100000 >&2", milliseconds(10'000)), "a");
  EXPECT_TRUE(absl::IsDeadlineExceeded(RunCommand("exec >&-; sleep 600", milliseconds(20)).status()));
}

}  // namespace
}  // namespace shardkit::remote
