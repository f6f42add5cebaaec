// In place of view.cc where cpp-httplib is missing.
#include <string>

#include "shardctl/report.h"
#include "shardctl/verbs.h"

namespace shardctl {

namespace {

int SayMissing(const char* verb) {
  PrintError("shardctl: " + std::string(verb) + ": is not in this build: install libcpp-httplib-dev and build again");
  return kExitEnvironment;
}

}  // namespace

int RunView(int, char**) { return SayMissing("view"); }
int RunReport(int, char**) { return SayMissing("report"); }

}  // namespace shardctl
