// Pages of listings.
#include "remote/http/answers.h"

namespace shardkit::remote {
namespace {

std::string Page(const std::string& inside) {
  return R"(<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">)" + inside +
         "</ListBucketResult>";
}

TEST(ListingTest, ObjectsFoldersAndTheNextPage) {
  const auto page = ParseListing(
      Page("<IsTruncated>true</IsTruncated><Contents><Key>a+b%3D%2B/%C3%BC</Key><Size>7</Size></Contents>"
           "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes><NextContinuationToken>t+%3D</NextContinuationToken>"
           "<EncodingType>url</EncodingType>"));
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].name, "a b=+/ü");
  EXPECT_EQ(page->objects[0].size, 7u);
  EXPECT_FALSE(page->objects[0].folder);
  EXPECT_EQ(page->objects[1].name, "a/");
  EXPECT_TRUE(page->objects[1].folder);
  EXPECT_EQ(page->continuation, "t+%3D") << "tokens are not encoded";
}

TEST(ListingTest, KeysAreAsTheyAreWithoutAnEncoding) {
  EXPECT_EQ(ParseListing(Page("<Contents><Key>a+b%20</Key><Size>0</Size></Contents>"))->objects.at(0).name, "a+b%20");
  EXPECT_TRUE(ParseListing(Page(""))->objects.empty());
}

TEST(ListingTest, RefusesOthers) {
  for (const std::string& document : {std::string("<Error><Code>X</Code></Error>"), std::string("<html></html>"),
                                      std::string(), Page("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
                                      Page("<Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"),
                                      Page("<IsTruncated>true</IsTruncated>"),
                                      Page("<EncodingType>url</EncodingType><Contents><Key>a%2</Key></Contents>"),
                                      Page("<EncodingType>url</EncodingType><Contents><Key>%zz</Key></Contents>")}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseListing(document).status())) << document;
  }
}

}  // namespace
}  // namespace shardkit::remote
