// Files in object stores and behind HTTP.
#pragma once

#include "shardkit/filesystem.h"

namespace shardkit {

// PosixFileSystem(), in which s3://, gs://, hf:// and http(s):// paths can be read, too. Never deleted. Thread-safe.
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
// Other errors: PermissionDenied (the credentials do not allow it, or there are none), Unimplemented (writing; or a
// build without libcurl, which knows no URLs). Messages begin with the URL without its query and never hold
// credentials.
FileSystem* DefaultFileSystem();

}  // namespace shardkit
