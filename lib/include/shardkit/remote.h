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
// use; the first use of a URL reads them. A folder of s3:// and gs:// can be listed. Those of hf:// and http(s)://
// cannot: a dataset there needs its manifest, and Stat finds no folders.
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
