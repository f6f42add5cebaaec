// Files and datasets written to a store: whole or not at all, by one writer, and through faults.
#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "dataset/dataset_support.h"
#include "remote/object_filesystem.h"
#include "remote/object_writes.h"
#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

// As much of S3 as a writer asks for. Keys need no encoding.
class MemoryStore {
 public:
  ServedAnswer Serve(const ServedRequest& request) {
    const std::lock_guard lock(mutex_);
    const size_t question = std::min(request.target.find('?'), request.target.size());
    const std::string key = question < 3 ? "" : request.target.substr(3, question - 3);
    const std::string query = request.target.substr(question);
    const auto header = [&](const char* name) -> std::string {
      const auto found = request.headers.find(name);
      return found == request.headers.end() ? "" : found->second;
    };
    if (request.method == "POST" && query == "?uploads=") {
      const std::string id = "id" + std::to_string(++last_upload_);
      uploads_[id].key = key;
      ++begun_uploads;
      return Xml("<InitiateMultipartUploadResult><UploadId>" + id + "</UploadId></InitiateMultipartUploadResult>");
    }
    if (request.method == "GET" && query.find("uploads=") != query.npos) {
      std::string list;
      for (const auto& [id, upload] : uploads_) {
        list +=
            "<Upload><Key>" + upload.key + "</Key><UploadId>" + id + "</UploadId><Initiated>now</Initiated></Upload>";
      }
      return Xml("<ListMultipartUploadsResult>" + list + "</ListMultipartUploadsResult>");
    }
    if (request.method == "GET" && query.find("list-type=2") != query.npos) {
      std::string list, prefix = query.substr(query.find("prefix=") + 7);
      prefix = prefix.substr(0, prefix.find('&'));
      for (size_t at; (at = prefix.find("%2F")) != prefix.npos;) prefix.replace(at, 3, "/");
      std::string folder;
      for (const auto& [name, bytes] : objects_) {
        if (!name.starts_with(prefix) || (!folder.empty() && name.starts_with(folder))) continue;
        const size_t slash = name.find('/', prefix.size());
        if (query.find("delimiter=") != query.npos && slash != name.npos) {
          folder = name.substr(0, slash + 1);
          list += "<CommonPrefixes><Prefix>" + folder + "</Prefix></CommonPrefixes>";
          continue;
        }
        list += "<Contents><Key>" + name + "</Key><Size>" + std::to_string(bytes.size()) + "</Size></Contents>";
      }
      return Xml("<ListBucketResult>" + list + "</ListBucketResult>");
    }
    if (const size_t id_at = query.find("uploadId="); id_at != query.npos) {
      const auto upload = uploads_.find(query.substr(id_at + 9));
      if (upload == uploads_.end()) return {404, {}, "<Error><Code>NoSuchUpload</Code></Error>", {}, {}, false};
      if (request.method == "PUT") {
        const int number = std::stoi(query.substr(query.find("partNumber=") + 11));
        upload->second.parts[number] = request.body;
        return {200, {{"etag", "\"part" + std::to_string(number) + "\""}}, "", {}, {}, false};
      }
      if (request.method == "POST") {
        std::string whole, list;
        for (const auto& [number, bytes] : upload->second.parts) {
          const std::string text = std::to_string(number);
          list += "<Part><PartNumber>" + text + "</PartNumber><ETag>\"part" + text + "\"</ETag></Part>";
          whole += bytes;
        }
        if (request.body.find(">" + list + "</CompleteMultipartUpload>") == std::string::npos) {
          return {400, {}, "<Error><Code>InvalidPart</Code></Error>", {}, {}, false};
        }
        if (fails_late.exchange(false)) return Xml("<Error><Code>InternalError</Code></Error>");
        etags_[key] = "\"" + std::to_string(++last_version_) + "-" + std::to_string(upload->second.parts.size()) + "\"";
        objects_[key] = whole;
      }
      uploads_.erase(upload);
      return Xml("<CompleteMultipartUploadResult/>");
    }
    if (request.method == "PUT") {
      if (honours_conditions && header("if-none-match") == "*" && objects_.contains(key))
        return {412, {}, "", {}, {}, false};
      if (!header("if-match").empty() && header("if-match") != etags_[key]) return {412, {}, "", {}, {}, false};
      const std::string source = header("x-amz-copy-source");
      objects_[key] = source.empty() ? request.body : objects_.at(source.substr(3));
      etags_[key] = "\"" + std::to_string(++last_version_) + "\"";
      return Xml("");
    }
    const auto object = objects_.find(key);
    if (object == objects_.end()) return {404, {}, "", {}, {}, false};
    if (request.method == "GET") return ServeObject(request, object->second, etags_[key]);
    objects_.erase(object);
    return {204, {}, "", {}, {}, false};
  }

  std::map<std::string, std::string> objects() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }
  void Put(const std::string& key, const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    objects_[key] = bytes;
    etags_[key] = "\"" + std::to_string(++last_version_) + "\"";
  }
  size_t uploads() const {
    const std::lock_guard lock(mutex_);
    return uploads_.size();
  }
  // As an administrator would.
  void AbortUploads() {
    const std::lock_guard lock(mutex_);
    uploads_.clear();
  }

  std::atomic<bool> honours_conditions = true;
  std::atomic<int> begun_uploads = 0;
  std::atomic<bool> fails_late = false;  // a status of 200, and then the error

 private:
  struct Started {
    std::string key;
    std::map<int, std::string> parts;
  };

  static ServedAnswer Xml(std::string body) { return {200, {}, std::move(body), {}, {}, false}; }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_, etags_;
  std::map<std::string, Started> uploads_;
  int last_upload_ = 0, last_version_ = 0;
};

class ObjectWritesTest : public testing::Test {
 protected:
  // Each `fault_every`-th request fails; the store has done what it asked for nevertheless, when `after`.
  ServedAnswer Serve(const ServedRequest& request) {
    const bool fails = fault_every_ != 0 && ++served_ % fault_every_ == 0;
    if (fails && served_ / fault_every_ % 2 == 0)
      return {503, {}, "<Error><Code>SlowDown</Code></Error>", {}, {}, false};
    ServedAnswer answer = memory_.Serve(request);
    if (fails) answer = {500, {}, "the answer was lost", {}, {}, false};
    return answer;
  }

  std::unique_ptr<ObjectFileSystem> NewFiles(bool conditional = true) {
    auto store = ObjectStore::Create({
        .environment = [this, conditional](const char* name) -> std::optional<std::string> {
          if (name == std::string_view("AWS_ENDPOINT_URL")) return server_.origin();
          if (name == std::string_view("AWS_NO_SIGN_REQUEST")) return "1";
          if (name == std::string_view("SHARDKIT_NO_CONDITIONAL") && !conditional) return "1";
          return std::nullopt;
        },
        .files = no_files_.get(),
        .retry = {.first_delay = milliseconds(1), .longest_delay = milliseconds(4)},
    });
    return std::make_unique<ObjectFileSystem>(*std::move(store));
  }

  std::atomic<int> fault_every_ = 0, served_ = 0;
  MemoryStore memory_;
  TestServer server_{[this](const ServedRequest& request) { return Serve(request); }};
  std::unique_ptr<FileSystem> no_files_ = NewMemoryFileSystem();
  std::unique_ptr<ObjectFileSystem> files_ = NewFiles();
};

// Bytes of which no two MiB are equal.
std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + (i >> 20) * 7 + (i >> 8));
  return bytes;
}

TEST_F(ObjectWritesTest, AStreamedFileAppearsWithItsRename) {
  constexpr size_t kMebi = size_t{1} << 20;
  for (const size_t size : {size_t{0}, size_t{1}, 8 * kMebi, 8 * kMebi + 1, 19 * kMebi}) {
    const std::string bytes = Bytes(size);
    auto file = files_->CreateForStreaming("s3://b/d/x.tmp");
    ASSERT_TRUE(file.ok()) << file.status();
    for (size_t done = 0; done < size; done += 3 * kMebi) {
      ASSERT_TRUE((*file)->Append(std::string_view(bytes).substr(done, 3 * kMebi)).ok());
    }
    EXPECT_EQ((*file)->size(), size);
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->Close().ok());
    EXPECT_TRUE(memory_.objects().empty());
    EXPECT_TRUE(absl::IsUnimplemented(files_->Rename("s3://b/d/x.tmp", "s3://b/d/y")));
    ASSERT_TRUE(files_->Rename("s3://b/d/x.tmp", "s3://b/d/x").ok());
    EXPECT_EQ(memory_.objects().at("d/x"), bytes);
    EXPECT_EQ(memory_.uploads(), 0u);
    EXPECT_EQ(memory_.begun_uploads.exchange(0), size > 8 * kMebi) << "one part is put in one request";
    ASSERT_TRUE(files_->RemoveFile("s3://b/d/x").ok());
  }
}

TEST_F(ObjectWritesTest, AnErrorBehindAGoodStatusIsTriedAgain) {
  auto file = files_->CreateForStreaming("s3://b/x.tmp");
  const std::string bytes = Bytes(size_t{9} << 20);
  ASSERT_TRUE((*file)->Append(bytes).ok());
  memory_.fails_late = true;
  const absl::Status renamed = files_->Rename("s3://b/x.tmp", "s3://b/x");
  ASSERT_TRUE(renamed.ok()) << renamed;
  EXPECT_EQ(memory_.objects().at("x"), bytes);
}

TEST_F(ObjectWritesTest, ARemovedTemporaryFileLeavesNoUpload) {
  auto file = files_->CreateForStreaming("s3://b/x.tmp");
  ASSERT_TRUE((*file)->Append(Bytes(size_t{20} << 20)).ok());
  EXPECT_EQ(memory_.uploads(), 1u);
  const auto leftovers = files_->ListLeftovers("s3://b/");
  ASSERT_TRUE(leftovers.ok()) << leftovers.status();
  ASSERT_EQ(leftovers->size(), 1u);
  EXPECT_EQ(leftovers->front().url, "s3://b/x");
  EXPECT_EQ(leftovers->front().started, "now");
  ASSERT_TRUE(files_->RemoveFile("s3://b/x.tmp").ok());
  EXPECT_EQ(memory_.uploads(), 0u);
  EXPECT_TRUE(absl::IsNotFound(files_->RemoveFile("s3://b/x.tmp")));
}

TEST_F(ObjectWritesTest, AnUploadThatSomebodyAbortedIsAnError) {
  auto file = files_->CreateForStreaming("s3://b/x.tmp");
  ASSERT_TRUE((*file)->Append(Bytes(size_t{9} << 20)).ok());
  memory_.AbortUploads();
  EXPECT_FALSE(files_->Rename("s3://b/x.tmp", "s3://b/x").ok());
  EXPECT_TRUE(memory_.objects().empty());
}

TEST_F(ObjectWritesTest, ACreatedFileIsReadBeforeItIsAnObject) {
  auto file = files_->Create("s3://b/x.tmp");
  ASSERT_TRUE((*file)->Append("hello").ok());
  EXPECT_EQ(*files_->ReadFile("s3://b/x.tmp", 100), "hello");
  EXPECT_EQ(files_->Stat("s3://b/x.tmp", true)->size, 5u);
  EXPECT_TRUE(absl::IsAlreadyExists(files_->Create("s3://b/x.tmp").status()));
  EXPECT_TRUE(memory_.objects().empty());
  ASSERT_TRUE(files_->Rename("s3://b/x.tmp", "s3://b/y").ok());
  EXPECT_EQ(memory_.objects().at("y"), "hello");
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Append(" world")));
}

TEST_F(ObjectWritesTest, AFileThatIsAnObjectTakesNothingMore) {
  const auto file = files_->Create("s3://b/mark");
  ASSERT_TRUE((*file)->Append("hello").ok());
  EXPECT_TRUE(memory_.objects().empty());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(memory_.objects().at("mark"), "hello");
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Append(" world")));
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(memory_.objects().at("mark"), "hello");
}

// The lock of a folder within a folder whose name begins with a dot guards the outer one.
TEST_F(ObjectWritesTest, ALockInAHiddenFolderGuardsWhatIsAroundIt) {
  memory_.Put("d/manifest", "first");
  auto lock = files_->Lock("s3://b/d/.hidden/lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(*files_->ReadFile("s3://b/d/manifest", 100), "first");
  memory_.Put("d/manifest", "another's");
  auto file = files_->Create("s3://b/d/manifest.tmp");
  ASSERT_TRUE((*file)->Append("ours").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(absl::IsAborted(files_->Rename("s3://b/d/manifest.tmp", "s3://b/d/manifest")));
  const auto leftovers = files_->ListLeftovers("s3://b/d");
  ASSERT_TRUE(leftovers.ok()) << leftovers.status();
  ASSERT_EQ(leftovers->size(), 1u);
  EXPECT_EQ((*leftovers)[0].url, "s3://b/d/.hidden/lock");
}

TEST_F(ObjectWritesTest, WhatMustBeNewReplacesNothing) {
  memory_.Put("taken", "theirs");
  for (const bool conditional : {true, false}) {
    files_ = NewFiles(conditional);
    {
      auto file = files_->Create("s3://b/x.tmp");
      ASSERT_TRUE((*file)->Append("ours").ok());
      EXPECT_TRUE(absl::IsAlreadyExists(files_->RenameIfAbsent("s3://b/x.tmp", "s3://b/taken")));
      ASSERT_TRUE(files_->RenameIfAbsent("s3://b/x.tmp", "s3://b/free").ok());
    }
    const auto marker = files_->Create("s3://b/taken");
    ASSERT_TRUE((*marker)->Append("ours").ok());
    EXPECT_TRUE(absl::IsAlreadyExists((*marker)->Close()));
    EXPECT_EQ(memory_.objects(), (std::map<std::string, std::string>{{"free", "ours"}, {"taken", "theirs"}}));
    ASSERT_TRUE(files_->RemoveFile("s3://b/free").ok());
  }
}

TEST_F(ObjectWritesTest, OneHolderHasTheLock) {
  const auto others = NewFiles();
  auto lock = files_->Lock("s3://b/d/the.lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status refused = others->Lock("s3://b/d/the.lock").status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_NE(refused.message().find("shardctl uploads abort s3://b/d"), refused.message().npos) << refused;
  // Its holder may remove the file before the lock ends, as it would of a local one.
  ASSERT_TRUE(files_->RemoveFile("s3://b/d/the.lock").ok());
  EXPECT_EQ(memory_.objects().size(), 1u);
  // Taken away by force: the first holder must not end the second one's.
  const auto leftovers = others->ListLeftovers("s3://b/d");
  ASSERT_TRUE(leftovers.ok()) << leftovers.status();
  ASSERT_EQ(leftovers->size(), 1u);
  ASSERT_TRUE(others->RemoveLeftover(leftovers->front()).ok());
  auto second = others->Lock("s3://b/d/the.lock");
  ASSERT_TRUE(second.ok()) << second.status();
  lock->reset();
  EXPECT_EQ(memory_.objects().size(), 1u);
  second->reset();
  EXPECT_TRUE(memory_.objects().empty());
}

TEST_F(ObjectWritesTest, WhatWasReadUnderTheLockIsReplacedOnlyIfItIsStillThere) {
  const auto replace = [&](const std::string& bytes) -> absl::Status {
    auto file = files_->Create("s3://b/d/manifest.tmp");
    if (!file.ok()) return file.status();
    absl::Status status = (*file)->Append(bytes);
    status.Update(files_->Rename("s3://b/d/manifest.tmp", "s3://b/d/manifest"));
    (void)files_->RemoveFile("s3://b/d/manifest.tmp");
    return status;
  };
  memory_.Put("d/manifest", "first");
  auto lock = files_->Lock("s3://b/d/the.lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(*files_->ReadFile("s3://b/d/manifest", 10), "first");
  memory_.Put("d/manifest", "theirs");
  const absl::Status refused = replace("ours");
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_EQ(memory_.objects().at("d/manifest"), "theirs");
  EXPECT_EQ(*files_->ReadFile("s3://b/d/manifest", 10), "theirs");
  EXPECT_TRUE(replace("ours").ok());
  EXPECT_TRUE(replace("ours again").ok()) << "what it wrote itself is no other's";
  EXPECT_EQ(*files_->ReadFile("s3://b/d/manifest", 10), "ours again");
  lock->reset();
  memory_.Put("d/manifest", "theirs");
  EXPECT_TRUE(replace("ours").ok()) << "without a lock";
}

TEST_F(ObjectWritesTest, AStoreWithoutConditionsIsRefused) {
  memory_.honours_conditions = false;
  const absl::Status refused = files_->Lock("s3://b/d/the.lock").status();
  EXPECT_TRUE(absl::IsUnimplemented(refused));
  EXPECT_NE(refused.message().find("--no-conditional"), refused.message().npos) << refused;
  EXPECT_TRUE(memory_.objects().empty());
  EXPECT_TRUE(NewFiles(/*conditional=*/false)->Lock("s3://b/d/the.lock").ok());
}

TEST_F(ObjectWritesTest, CopiesInsideTheStore) {
  memory_.Put("a", "bytes");
  ASSERT_TRUE(files_->Link("s3://b/a", "s3://b/c").ok());
  EXPECT_EQ(memory_.objects().at("c"), "bytes");
  EXPECT_TRUE(absl::IsFailedPrecondition(files_->Link("gs://b/a", "s3://b/c")));
  ASSERT_TRUE(files_->Rename("s3://b/a", "s3://b/e").ok());
  EXPECT_EQ(memory_.objects(), (std::map<std::string, std::string>{{"c", "bytes"}, {"e", "bytes"}}));
}

TEST_F(ObjectWritesTest, WebServersAreNotWrittenTo) {
  for (const std::string path : {"http://host/x.tmp", "hf://datasets/a/b/x.tmp"}) {
    EXPECT_TRUE(absl::IsUnimplemented(files_->Create(path).status())) << path;
    EXPECT_TRUE(absl::IsUnimplemented(files_->CreateForStreaming(path).status())) << path;
    EXPECT_TRUE(absl::IsUnimplemented(files_->Lock(path).status())) << path;
    EXPECT_TRUE(absl::IsUnimplemented(files_->RemoveFile(path))) << path;
  }
}

// Whatever fails on the way, and whether or not the store has done it, the dataset is the one that is written locally.
TEST_F(ObjectWritesTest, ADatasetIsTheSameAsLocallyThroughFaults) {
  const std::vector<test::OwnedSample> samples = test::MakeSamples(40);
  const auto write = [&](FileSystem& file_system, const std::string& directory) {
    return test::WriteDataset(file_system, directory, samples, test::SmallShards(12, 4)).status();
  };
  const auto local = NewMemoryFileSystem();
  ASSERT_TRUE(write(*local, "/d").ok());
  for (const int every : {0, 7, 4, 3}) {
    fault_every_ = every;
    const std::string folder = "d" + std::to_string(every);
    const absl::Status written = write(*files_, "s3://b/" + folder);
    ASSERT_TRUE(written.ok()) << written;
    fault_every_ = 0;
    std::map<std::string, std::string> expected, found;
    for (const auto& [name, bytes] : test::ReadTree(*local, "/d")) {
      if (!name.ends_with('/')) expected[folder + "/" + name] = bytes;
    }
    for (const auto& object : memory_.objects()) {
      if (object.first.starts_with(folder + "/")) found.insert(object);
    }
    EXPECT_EQ(found, expected) << "a fault in every " << every << "th request";
  }
}

// The lock, then the manifest on the condition that it is still the one that the append began with.
TEST_F(ObjectWritesTest, AnAppendIsTheSameAsLocallyThroughFaultsAndOneOfTwoWins) {
  const std::vector<test::OwnedSample> samples = test::MakeSamples(40);
  const std::span<const test::OwnedSample> all = samples;
  const auto write = [&](FileSystem& file_system, const std::string& directory, size_t begin, size_t end) {
    const auto part = all.subspan(begin, end - begin);
    DatasetWriterOptions options = test::SmallShards(12, 4);
    options.append = begin > 0;
    return test::WriteDataset(file_system, directory, {part.begin(), part.end()}, options).status();
  };
  const auto local = NewMemoryFileSystem();
  ASSERT_TRUE(write(*local, "/d", 0, 20).ok());
  ASSERT_TRUE(write(*local, "/d", 20, 40).ok());
  for (const int every : {0, 7, 4, 3}) {
    const std::string folder = "d" + std::to_string(every);
    ASSERT_TRUE(write(*files_, "s3://b/" + folder, 0, 20).ok());
    fault_every_ = every;
    const absl::Status appended = write(*files_, "s3://b/" + folder, 20, 40);
    fault_every_ = 0;
    ASSERT_TRUE(appended.ok()) << appended << ", a fault in every " << every << "th request";
    std::map<std::string, std::string> expected, found;
    for (const auto& [name, bytes] : test::ReadTree(*local, "/d")) {
      if (!name.ends_with('/')) expected[folder + "/" + name] = bytes;
    }
    for (const auto& object : memory_.objects()) {
      if (object.first.starts_with(folder + "/")) found.insert(object);
    }
    EXPECT_EQ(found, expected) << "a fault in every " << every << "th request";
  }

  ASSERT_TRUE(write(*files_, "s3://b/d", 0, 20).ok());
  DatasetWriterOptions options = test::SmallShards(12, 4);
  options.append = true;
  const Schema schema = test::MakeSchema({test::KeyColumn(), test::ImageColumn()});
  auto first = DatasetWriter::Create(*files_, "s3://b/d", schema, options);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto others = NewFiles();
  EXPECT_TRUE(absl::IsUnavailable(DatasetWriter::Create(*others, "s3://b/d", schema, options).status()));
  // The lock is taken away by force, as that of a killed run would be.
  const auto leftovers = others->ListLeftovers("s3://b/d");
  ASSERT_TRUE(leftovers.ok() && leftovers->size() == 1) << leftovers.status();
  ASSERT_TRUE(others->RemoveLeftover(leftovers->front()).ok());
  const absl::Status second = write(*others, "s3://b/d", 20, 30);
  ASSERT_TRUE(second.ok()) << second;
  ASSERT_TRUE((*first)->Append(samples[30].View()).ok());
  const absl::Status refused = (*first)->Finish().status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  first->reset();
  const auto manifest = ReadManifest(*others, "s3://b/d");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->sample_count, 30u);
  EXPECT_EQ(test::ValidateText(*others, "s3://b/d"), "");
}

TEST(ParseUploadsTest, ReadsPagesAndRefusesOthers) {
  const auto page = ParseUploads(
      "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextKeyMarker>a%2Fb</NextKeyMarker><NextUploadIdMarker>i</NextUploadIdMarker>"
      "<Upload><Key>a+b</Key><UploadId>u</UploadId><Initiated>t</Initiated></Upload></ListMultipartUploadsResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->uploads.size(), 1u);
  EXPECT_EQ(page->uploads[0].key, "a b");
  EXPECT_EQ(page->uploads[0].id, "u");
  EXPECT_EQ(page->next_key, "a/b");
  EXPECT_EQ(page->next_id, "i");
  for (const char* bad :
       {"", "<Other/>", "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>",
        "<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload><Key>%z</Key></Upload>"
        "</ListMultipartUploadsResult>"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseUploads(bad).status())) << bad;
  }
}

}  // namespace
}  // namespace shardkit::remote
