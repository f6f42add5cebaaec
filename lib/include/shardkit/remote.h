// Files in object stores and behind HTTP.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// PosixFileSystem(), in which s3://, gs://, hf:// and http(s):// paths can be read, too, and those of s3:// and gs://
// written. Never deleted. Thread-safe.
//
//   s3://BUCKET/KEY, gs://BUCKET/KEY   without any encoding of the key
//   hf://datasets/OWNER/NAME[@REVISION]/PATH
//   https://HOST/PATH                   percent-encoded, as in a browser
//
// Credentials, regions, endpoints and proxies come from the environment and the files that the tools of each provider
// use; each opening of a file reads them, and credentials that a store refuses are looked for once more. A folder of
// s3:// and gs:// can be listed. Those of hf:// and http(s):// cannot: a dataset there needs its manifest, and Stat
// finds no folders.
//
// Each file is one version of an object: when the object changes while it is open, reads fail with FailedPrecondition.
// Requests that fail are sent again, so an error takes up to minutes to come: Unavailable or DeadlineExceeded at last.
// Other errors: PermissionDenied (the credentials do not allow it, or there are none), Unimplemented (writing to the
// others; a store that does not honour If-None-Match; or a build without libcurl, which knows no URLs). Messages begin
// with the URL without its query and never hold credentials.
//
// What is written appears as a whole object or not at all: a file X.tmp when it is renamed, any other when it is
// flushed or closed. CreateForStreaming("X.tmp") sends parts of 8 MiB while it is written, eight at a time, and can
// neither go back nor be given another name than X; what Create makes lies in TMPDIR until then. Link copies inside the
// store. A lock is an object that only one writer can make. The writer of a dataset locks its folder, and refuses a
// store that lets a second one in, unless SHARDKIT_NO_CONDITIONAL is set in the environment; then nothing is locked.
FileSystem* DefaultFileSystem();

// A query of a URL may be a signature, and paths stand in errors, reports and files. Takes the query out of a URL of
// http:// or https:// and returns the rest, for which DefaultFileSystem sends the query from now on, in this process
// and those that are forked from it: also for the files below it and beside it ("x.tar.shardidx"), which are missing
// where the server then says that they are forbidden. A later query of the same URL replaces it. Returns other paths as
// they are. Thread-safe.
std::string KeepQuery(const std::string& path);

// A cache on local disk of what is read of URLs: for all processes of a machine, each byte is fetched once. Processes
// that begin, end or are killed at any time need nothing from one another.
struct CacheOptions {
  // Empty: no cache. Made when there is none, for its owner alone; PermissionDenied when others own it or may write
  // there.
  std::string directory;

  // That the cache takes on disk at most; what was used last stays. 0 is four fifths of the file system. On a full disk
  // the cache is smaller.
  uint64_t limit_bytes = 0;

  friend bool operator==(const CacheOptions&, const CacheOptions&) = default;
};

// For the files that DefaultFileSystem opens from now on, in this process and those that are forked from it. Without a
// call, SHARDKIT_CACHE (the directory) and SHARDKIT_CACHE_LIMIT (bytes) in the environment decide. Thread-safe.
//
// An object is cached by its URL, the address of its store, the account that reads it, and its ETag, in pieces of 16
// KiB with checksums, those that were read alone. Each time a file is opened, its first read asks the store for one
// byte, so that a changed object is seen. Objects without a strong ETag are not cached.
absl::Status UseCache(const CacheOptions& options);

// What this process has read through its cache, since it uses it. Zero without one.
struct CacheTraffic {
  uint64_t bytes_found = 0;    // in the cache
  uint64_t bytes_fetched = 0;  // from the store, in whole pieces

  friend bool operator==(const CacheTraffic&, const CacheTraffic&) = default;
};
CacheTraffic ReadCacheTraffic();

// What a cache has of an object, of all its versions.
struct CachedObject {
  std::string url;        // without its query
  uint64_t bytes = 0;     // on disk
  uint64_t lines = 0;     // files in the cache
  int64_t last_used = 0;  // seconds since 1970, with an error of some seconds
};

// In the order of their URLs. NotFound when the directory is no cache.
absl::StatusOr<std::vector<CachedObject>> ListCache(const std::string& directory);

struct CacheCheck {
  uint64_t pieces = 0;   // that are there
  uint64_t damaged = 0;  // of those; they are fetched anew when they are wanted
};

// Compares everything with its checksums, and forgets what is damaged. Others may use the cache meanwhile.
absl::StatusOr<CacheCheck> VerifyCache(const std::string& directory);

// Removes all lines that nobody is writing to. Others may use the cache meanwhile.
absl::Status ClearCache(const std::string& directory);

// What a writer that was killed has left in a store.
struct Leftover {
  std::string url;
  std::string upload_id;  // of an upload that was neither completed nor aborted; empty for a lock
  std::string started;    // when, as the store writes it; empty for a lock
};

// Those below a folder of s3:// or gs://, locks only directly in it. Writers that are at work have such uploads and
// locks, too. Errors as above.
absl::StatusOr<std::vector<Leftover>> ListLeftovers(const std::string& url);

// Aborts the upload, so that its parts are no longer paid for, or removes the lock. OK when it is gone.
absl::Status RemoveLeftover(const Leftover& leftover);

}  // namespace shardkit
