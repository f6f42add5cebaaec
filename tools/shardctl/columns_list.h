// shardctl columns DATASET
#pragma once

namespace shardctl {

// Takes the words after "columns" where they are no verb of it. Returns an exit code.
int RunColumnsList(int argc, char** argv);

}  // namespace shardctl
