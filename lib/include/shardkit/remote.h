// Files in object stores and behind HTTP.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// PosixFileSystem() that can also read s3://, gs://, hf:// and http(s):// paths, and write s3:// and gs:// paths. Never
// deleted. Thread-safe.
//
//   s3://BUCKET/KEY, gs://BUCKET/KEY   without any encoding of the key
//   hf://datasets/OWNER/NAME[@REVISION]/PATH
//   https://HOST/PATH                   percent-encoded, as in a browser
//
// Credentials, regions, endpoints and proxies come from the environment and the files that each provider's tools use.
// They are read each time a file is opened, and looked up once more if a store refuses them. Folders of s3:// and gs://
// can be listed. Folders of hf:// and http(s):// cannot: a dataset there needs its manifest, and Stat finds no folders.
//
// Each file is one version of an object: if the object changes while it is open, reads fail with FailedPrecondition.
// Failed requests are sent again, so an error may take minutes. Messages begin with the URL without its query and never
// hold credentials.
// - Unavailable, DeadlineExceeded: all attempts failed.
// - PermissionDenied: there are no credentials, or they are not sufficient.
// - Unimplemented: writing to hf:// or http(s)://; a store that ignores If-None-Match; a build without libcurl, for any
//   URL.
//
// An object is written as a whole or not at all: a file X.tmp when it is renamed, any other file when it is flushed or
// closed. CreateForStreaming("X.tmp") sends parts of 8 MiB during writing, eight at a time; it cannot go back, and the
// file can be renamed to X only. Create keeps the data in TMPDIR until then. Link copies inside the store. A lock is an
// object that only one writer can create. A dataset writer locks its folder, and refuses a store that lets a second
// writer in, unless SHARDKIT_NO_CONDITIONAL is set in the environment; then nothing is locked.
FileSystem* DefaultFileSystem();

// Keeps a URL's query, which may be a signature, out of errors, reports and files. Takes the query out of an http:// or
// https:// URL and returns the rest. From now on DefaultFileSystem sends the query for this URL, in this process and in
// processes forked from it. It also sends it for files below and beside it ("x.tar.shardidx"); those count as missing
// if the server says that they are forbidden. A later query of the same URL replaces it. Returns other paths unchanged.
// Thread-safe.
std::string KeepQuery(const std::string& path);

// A cache on local disk for data read from URLs: all processes of a machine together fetch each byte once. Processes
// may start, end or be killed at any time.
struct CacheOptions {
  // Empty: no cache. Created if missing, for its owner alone; PermissionDenied if others own it or may write there.
  std::string directory;

  // The most bytes of the cache on disk; the most recently used data stay. 0 is four fifths of the file system. On a
  // full disk the cache is smaller.
  uint64_t limit_bytes = 0;

  friend bool operator==(const CacheOptions&, const CacheOptions&) = default;
};

// Sets the cache for files that DefaultFileSystem opens from now on, in this process and in processes forked from it.
// Without a call, SHARDKIT_CACHE (the directory) and SHARDKIT_CACHE_LIMIT (bytes) in the environment apply.
// Thread-safe.
//
// An object is cached by its URL, the address of its store, the account that reads it, and its ETag. Only the pieces
// that were read are cached, of 16 KiB with checksums. The first read of each opened file asks the store for one byte,
// to detect a changed object. Objects without a strong ETag are not cached.
absl::Status UseCache(const CacheOptions& options);

// Bytes that this process has read through its cache so far. Zero without a cache.
struct CacheTraffic {
  uint64_t bytes_found = 0;    // in the cache
  uint64_t bytes_fetched = 0;  // from the store, in whole pieces

  friend bool operator==(const CacheTraffic&, const CacheTraffic&) = default;
};
CacheTraffic ReadCacheTraffic();

// The cached data of an object, all versions together.
struct CachedObject {
  std::string url;        // without its query
  uint64_t bytes = 0;     // on disk
  uint64_t lines = 0;     // files in the cache
  int64_t last_used = 0;  // seconds since 1970, with an error of some seconds
};

// The cached objects, in the order of their URLs. NotFound if the directory is no cache.
absl::StatusOr<std::vector<CachedObject>> ListCache(const std::string& directory);

struct CacheCheck {
  uint64_t pieces = 0;   // all pieces
  uint64_t damaged = 0;  // damaged pieces, which are fetched again when needed
};

// Checks all checksums, and drops damaged pieces. Other processes may use the cache meanwhile.
absl::StatusOr<CacheCheck> VerifyCache(const std::string& directory);

// Removes all lines that are not being written. Other processes may use the cache meanwhile.
absl::Status ClearCache(const std::string& directory);

// A leftover of a killed writer: an unfinished upload or a lock.
struct Leftover {
  std::string url;
  std::string upload_id;  // of an unfinished upload; empty for a lock
  std::string started;    // when, as the store writes it; empty for a lock
};

// Lists leftovers below a folder of s3:// or gs://, locks directly in the folder only. Running writers have such
// uploads and locks, too. Errors as above.
absl::StatusOr<std::vector<Leftover>> ListLeftovers(const std::string& url);

// Aborts the upload, so that its parts are no longer paid for, or removes the lock. OK if it is gone.
absl::Status RemoveLeftover(const Leftover& leftover);

}  // namespace shardkit
