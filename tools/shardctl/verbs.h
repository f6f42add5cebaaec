// The commands. Each takes the words after its name and returns an exit code.
#pragma once

namespace shardctl {

int RunPack(int argc, char** argv);
int RunPlanPack(int argc, char** argv);
int RunIndex(int argc, char** argv);
int RunDiff(int argc, char** argv);
int RunHistory(int argc, char** argv);
int RunLs(int argc, char** argv);
int RunInspect(int argc, char** argv);
int RunCat(int argc, char** argv);
int RunValidate(int argc, char** argv);
int RunRepair(int argc, char** argv);
int RunColumns(int argc, char** argv);
int RunConvert(int argc, char** argv);
int RunFilter(int argc, char** argv);
int RunSplit(int argc, char** argv);
int RunMerge(int argc, char** argv);
int RunRm(int argc, char** argv);
int RunReshard(int argc, char** argv);
int RunCompact(int argc, char** argv);
int RunUnpack(int argc, char** argv);
int RunPlan(int argc, char** argv);
int RunSimulate(int argc, char** argv);
int RunBench(int argc, char** argv);
int RunCache(int argc, char** argv);
int RunReport(int argc, char** argv);
int RunView(int argc, char** argv);
int RunUploads(int argc, char** argv);
int RunSynth(int argc, char** argv);

}  // namespace shardctl
