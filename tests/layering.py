#!/usr/bin/python3
"""Checks that includes follow the order of the layers, and checks the length of files.

    tests/layering.py                  check the repository; one line per violation, exit status 1
    tests/layering.py --self-test      check that made-up violations are found
    tests/layering.py --list-headers   the public headers, one per line

Standard library only. CONTRIBUTING.md describes the layers.
"""
import os
import re
import sys
import tempfile

# Lowest first: a layer may include itself and the layers before it.
PRECOMPILED = "lib/pch/"  # of the standard library and Abseil alone
LAYERS = ["base", "io", "remote", "codec", "format", "container", "foreign", "dataset", "operations", "gpu", "loader"]

# The folders within layers, its rooms.
ROOMS = {
    "remote": ["cache", "credentials", "http"],
    "codec": ["image", "rle"],
    "container": ["read", "write"],
    "foreign": ["mds", "webdataset"],
    "dataset": ["change", "check", "foreign", "read", "select", "write"],
    "operations": ["archives", "coco", "columns", "copy", "pack", "sa1b", "sources", "tasks"],
    "gpu": ["kernels"],
    "loader": ["columns", "device", "engine", "plan", "simulation"],
}
MOST_FILES = 26  # of a room, and of a layer beside its rooms

# The layer whose types and functions a public header declares. A new header needs a line here.
HEADER_LAYERS = {
    "error_place.h": "base",
    "job.h": "base",
    "schema.h": "base",
    "filesystem.h": "io",
    "remote.h": "remote",
    "image.h": "codec",
    "rle.h": "codec",
    "sample.h": "format",
    "shard.h": "format",
    "tar_index.h": "foreign",
    "change.h": "dataset",
    "dataset_reader.h": "dataset",
    "dataset_writer.h": "dataset",
    "history.h": "dataset",
    "manifest.h": "dataset",
    "repair.h": "dataset",
    "select.h": "dataset",
    "validate.h": "dataset",
    "copy.h": "operations",
    "pack.h": "operations",
    "source.h": "operations",
    "device.h": "gpu",
    "dlpack.h": "loader",
    "loader.h": "loader",
    "plan.h": "loader",
    "simulate.h": "loader",
}

# Folders that use the library as its users do.
CLIENTS = ["tools", "python", "examples", "bench", "fuzz"]

# Their further headers: the decoders of untrusted bytes and the parsing of a command line have no public interface.
CLIENT_ALLOWANCES = {"bench": ("lib/operations/", "lib/gpu/"), "fuzz": ("lib/operations/", "lib/foreign/", "lib/format/", "lib/codec/", "lib/remote/", "tools/shardctl/", "tools/synth/", "tools/view/")}

PARSING = re.compile(r"lib/format/|lib/foreign/(mds/mds_(encoding|index|layout|text)|webdataset/(dali_index|tar_samples|webdataset_names))\.")

SOURCES = (".h", ".cc", ".cu", ".cuh")
LONGEST = 800  # lines
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA = re.compile(r"cuda|cooperative_groups|device_launch|cu(rand|blas|fft|sparse|solver|pti)|nv(tx|Tools|jpeg|ml)"
                  r"|npp|cub/|thrust/")


def walk(root):
    """Paths of all files below `root`, relative to it, without build folders and hidden ones."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders
                            if not f.startswith((".", "build")) and f not in ("__pycache__", "subprojects"))
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), root)


class Repository:
    def __init__(self, root, header_layers):
        self.root = root
        self.header_layers = header_layers
        self.files = {}  # path -> [(bracket, included)]
        self.lines = {}  # path -> number of lines
        self.texts = {}  # path -> contents, of C++
        for path in walk(root):
            if not path.endswith(SOURCES + (".py",)):
                continue
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read()
            self.lines[path] = text.count("\n")
            if path.endswith(SOURCES):
                self.files[path] = INCLUDE.findall(text)
                self.texts[path] = text

    def layer(self, path):
        """The layer a file of lib/ belongs to; None for others and for headers the table lacks."""
        parts = path.split("/")
        if parts[:3] == ["lib", "include", "shardkit"]:
            return self.header_layers.get("/".join(parts[3:]))
        return parts[1] if parts[0] == "lib" and len(parts) > 2 and parts[1] in LAYERS else None

    def resolve(self, path, included):
        """The file of the repository an include names, or None when it comes from elsewhere."""
        beside = os.path.normpath(os.path.join(os.path.dirname(path), included))
        own = path.split("/")[0] + "/" + included
        for candidate in (beside, own, "lib/include/" + included, "lib/" + included, "tests/" + included, included):
            candidate = os.path.normpath(candidate)
            if candidate in self.files:
                return candidate
        return None

    def closure(self, path):
        """Files of the repository that `path` includes, directly or through others."""
        seen = set()
        waiting = [path]
        while waiting:
            current = waiting.pop()
            for _, included in self.files[current]:
                target = self.resolve(current, included)
                if target is not None and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        seen.discard(path)
        return seen


def check_headers(repository):
    """The table and the folder of public headers have the same names."""
    prefix = "lib/include/shardkit/"
    present = {path[len(prefix):] for path in repository.files if path.startswith(prefix)}
    for name in sorted(present - set(repository.header_layers)):
        yield f"{prefix}{name}: no layer; add it to HEADER_LAYERS in tests/layering.py"
    for name in sorted(set(repository.header_layers) - present):
        yield f"tests/layering.py: HEADER_LAYERS names {name}, which is not in {prefix}"
    for path in repository.files:
        if path.startswith("lib/") and not path.startswith(prefix) and repository.layer(path) is None and not path.startswith(PRECOMPILED):
            yield f"{path}: not in the folder of a layer ({', '.join(LAYERS)})"


def check_rooms(repository):
    """A layer has the folders of the table alone, and none has more files than a newcomer looks through."""
    sizes = {}
    for path in repository.files:
        if path.startswith("lib/include/") or repository.layer(path) is None:
            continue
        folder = os.path.dirname(path)
        sizes[folder] = sizes.get(folder, 0) + 1
        _, layer, *room = folder.split("/")
        if room and "/".join(room) not in ROOMS.get(layer, []):
            yield f"{path}: no room of the layer; ROOMS in tests/layering.py has them"
    for folder, files in sizes.items():
        if files > MOST_FILES:
            yield f"{folder}: {files} files; divide it ({MOST_FILES} at most)"


def check_json(repository):
    """Only one file of lib/ includes the libraries for JSON, because they take seconds to compile."""
    for path, includes in repository.files.items():
        if path.startswith("lib/") and path != "lib/base/json.cc":
            for _, included in includes:
                if included == "simdjson.h" or (included.startswith("nlohmann/") and included != "nlohmann/json_fwd.hpp"):
                    yield f"{path}: includes {included}; JSON is read and written through base/json.h"


def check_parsing(repository):
    """The parsing of containers reads no files, so that it can be fuzzed with bytes."""
    for path, includes in repository.files.items():
        if not PARSING.match(path):
            continue
        for _, included in includes:
            if repository.layer(repository.resolve(path, included) or path) in ("io", "remote"):
                yield f"{path}: includes {included}; parsing reads no files"


def check_order(repository):
    """No file of lib/ includes a higher layer, and public headers include only public headers."""
    for path, includes in repository.files.items():
        layer = repository.layer(path)
        if layer is None:
            continue
        public = path.startswith("lib/include/")
        for bracket, included in includes:
            target = repository.resolve(path, included)
            if target is None:
                if bracket == '"' and not included.startswith("absl/"):
                    yield f'{path}: "{included}" is in no folder of lib/; write <> for other projects\' headers'
                continue
            target_layer = repository.layer(target)
            if target_layer is None:
                if not target.startswith("lib/"):
                    yield f"{path}: includes {target}, which is no part of the library"
            elif bracket == "<" and not target.startswith("lib/include/") and target == "lib/" + layer + "/" + included:
                continue  # <zstd.h> in lib/codec is the system's: the build does not search the folder itself
            elif LAYERS.index(target_layer) > LAYERS.index(layer):
                yield f"{path}: includes {target} of {target_layer}, which stands above {layer}"
            elif public and not target.startswith("lib/include/"):
                yield f"{path}: a public header includes {target}, which is private"


def check_clients(repository):
    """Tools, examples, benchmarks and fuzzers use public headers, their own headers and those of other projects."""
    for path, includes in repository.files.items():
        client = path.split("/")[0]
        if client not in CLIENTS:
            continue
        for bracket, included in includes:
            target = repository.resolve(path, included)
            if target is None:
                if included.startswith("shardkit/") or (bracket == '"' and not included.startswith("absl/")):
                    yield f'{path}: "{included}" is neither a public header nor one in {client}/'
            elif not target.startswith(("lib/include/", client + "/", *CLIENT_ALLOWANCES.get(client, ()))):
                if bracket == "<" and "/" not in included:
                    continue
                yield f"{path}: includes {target}; {client}/ may use public headers only"


def check_cuda(repository):
    """CUDA headers appear only in *_cuda.* and *.cu of lib/gpu."""
    for path, includes in repository.files.items():
        folder, name = os.path.split(path)
        if folder.startswith("lib/gpu") and (name.endswith((".cu", ".cuh")) or "_cuda." in name):
            continue
        for _, included in includes:
            if CUDA.match(included) and repository.resolve(path, included) is None:
                yield f"{path}: includes {included}; CUDA belongs in *_cuda.* and *.cu of lib/gpu"


def check_directions(repository):
    """Reading never depends on writing, nor writing on reading, not even through a chain of headers."""
    for path in repository.files:
        if not path.startswith("lib/"):
            continue
        for word, other in (("reader", "writer"), ("writer", "reader")):
            if not direction(path, word):
                continue
            for target in sorted(repository.closure(path)):
                if direction(target, other):
                    yield f"{path}: depends on {target}; reading and writing are independent of each other"


def direction(path, word):
    return word in os.path.splitext(os.path.basename(path))[0].split("_")


def check_length(repository):
    for path, lines in repository.lines.items():
        if lines > LONGEST:
            yield f"{path}: {lines} lines; split it ({LONGEST} at most)"


class Definitions:
    """What each namespace of C++ files defines, read as clang-format lays it out: every definition begins in the first column."""

    NAMED = [re.compile(r"(?:template <.*?> )?(?:class|struct|union|enum class|enum) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : [^;]*)? ?\{"),
             re.compile(r"using (\w+) = "),
             re.compile(r"(?:inline |static )*(?:const|constexpr) [^()=]*?\b(k[A-Z]\w*)(?:\[\w*\])* ?[={(]")]
    FUNCTION = re.compile(r"[^(]*[ *&](\w+)$")

    def __init__(self):
        self.places = {}  # (program, namespace, name, private) -> {path:line: text}

    @staticmethod
    def program(path):
        """The files that may be compiled as one: those of a layer, a test program, a tool."""
        return os.path.dirname(path) if path.startswith("tests/") else "/".join(path.split("/")[:2])

    def add(self, path, text):
        namespaces, pending, first, alternative = [], "", 0, False
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("#"):
                alternative = line.startswith(("#else", "#elif")) or (alternative and not line.startswith("#endif"))
            elif alternative:
                continue
            elif match := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{$", line):
                namespaces.append(match[1])
            elif re.match(r"\}  // (?:inline )?namespace", line):
                namespaces.pop()
            elif pending or re.match(r"[A-Za-z\[]", line):
                first = first if pending else number
                pending += (" " if pending else "") + line.strip()
                if pending.count("(") <= pending.count(")") and pending.endswith((";", "{", "}")):
                    self.note(path, first, namespaces, pending)
                    pending = ""

    def note(self, path, number, namespaces, text):
        name = next((match[1] for match in (pattern.match(text) for pattern in self.NAMED) if match is not None), None)
        if name is None:
            text = re.sub(r"^template <[^()]*?> (?=\w)", "", text)
            head = self.FUNCTION.match(text.partition("(")[0])
            if head is None or text.endswith(";") or text.startswith(("template <>", "extern", "static_assert", "class ", "struct ", "TEST")):
                return
            name = head[1] + parameters(text[head.end():])
        private = "" in namespaces or (path.endswith(".cc") and text.startswith("static "))
        program = self.program(path) if private or not path.startswith("lib/") else "lib"
        key = (program, "::".join(part for part in namespaces if part), name, private)
        places = self.places.setdefault(key, {})
        if text.startswith("using ") and text in places.values():
            return  # C++ allows to say again what an alias stands for
        places[f"{path}:{number}"] = text

    def repeated(self):
        for (program, scope, name, private), places in sorted(self.places.items()):
            if private:
                shared = self.places.get(("lib" if program.startswith("lib/") else program, scope, name, False), {})
                places = {**shared, **places}
            texts = list(places.values())
            if len(places) > 1 and not all(text.startswith("using ") and text == texts[0] for text in texts):
                *before, last = places
                yield f"{last}: {name} is defined in this namespace already, in {', '.join(before)}; give it another name"


def parameters(text):
    """The types of a function's parameters; `text` begins with their parenthesis."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "(<[{") - (character in ")>]}")
        if depth == 0:
            break
        if character == "," and depth == 1:
            parts.append("")
        elif depth > 1 or character != "(":
            parts[-1] += character
    types = [re.sub(r"(?<=[ *&>])\w+$", "", part.split(" = ")[0].strip()).strip() for part in parts]
    return "(" + ", ".join(re.sub(r"^const (?=[\w:]+$)", "", each) for each in types) + ")"


def check_definitions(repository):
    """No namespace has two definitions of one name: the linker would pick one in silence, and files could not be compiled as one."""
    definitions = Definitions()
    for path in repository.files:
        if path.endswith((".h", ".cc")) and not path.endswith(("_stub.cc", "_missing.cc")) and path.startswith(("lib/", "tools/", "tests/", "fuzz/", "python/")):
            definitions.add(path, repository.texts[path])
    yield from definitions.repeated()


def check_namespaces(repository):
    """What is not public stands in its layer's namespace; base, below all others, in shardkit itself."""
    for path in repository.files:
        layer = path.split("/")[1] if path.startswith("lib/") else ""
        if layer not in LAYERS[1:] or not path.endswith(".h"):
            continue
        inside = ""  # no namespace: another project's interface, as DLPack's
        for match in re.finditer(r"^(class|struct|enum|using|inline|constexpr|template|[\w:<>]+ \w+\()|^namespace (shardkit[\w:]*) \{", repository.texts[path], re.M):
            if match[2]:
                inside = match[2]
            elif inside and not re.match(rf"shardkit::({layer}|predicate)\b", inside) and not re.match(r"(class \w+;|struct \w+::)", repository.texts[path][match.start():]):
                yield f"{path}: declares in the namespace {inside}; what is not public stands in shardkit::{layer}"
                break


CHECKS = [check_headers, check_rooms, check_json, check_parsing, check_order, check_clients, check_cuda, check_directions, check_length,
          check_definitions, check_namespaces]


def violations(root, header_layers):
    repository = Repository(root, header_layers)
    return [violation for check in CHECKS for violation in check(repository)]


def self_test():
    """Checks a small repository without faults, then one fault at a time. Returns the faults that were not found."""
    headers = {"filesystem.h": "io", "rle.h": "codec", "shard_reader.h": "container"}
    sound = {
        "lib/include/shardkit/filesystem.h": "#pragma once\n#include <string>\n",
        "lib/include/shardkit/rle.h": '#include "absl/status/status.h"\n',
        "lib/include/shardkit/shard_reader.h": '#include "shardkit/filesystem.h"\n',
        "lib/base/strings.h": "#pragma once\n",
        "lib/codec/zstd.h": '#include "base/strings.h"\n',
        "lib/codec/zstd.cc": '#include "codec/zstd.h"\n#include <zstd.h>\n#include <cstring>\n\nnamespace shardkit {\nnamespace {\n\n'
                             'struct Level {\n  int value;\n};\n\nbool Works(int a,\n           int b = 2) {\n  return a == b;\n}\n'
                             'bool Works(const Level& level) { return true; }\n\n}  // namespace\n\nvoid Compress() {}\n\n}  // namespace shardkit\n',
        "lib/codec/none.cc": "namespace shardkit {\nvoid Works(int a);\nstruct Level;\nusing Clock = int;\n}  // namespace shardkit\n",
        "lib/container/shard_file_reader.cc": '#include "shardkit/shard_reader.h"\n#include "base/strings.h"\n',
        "lib/container/write/shard_file_writer.h": '#include "shardkit/rle.h"\n',
        "lib/gpu/stream_cuda.cc": "#include <cuda_runtime.h>\n",
        "tools/shardctl/json.h": "#pragma once\n",
        "tools/shardctl/main.cc": '#include "json.h"\n#include "shardkit/rle.h"\n#include <CLI/App.hpp>\n',
        "fuzz/format_fuzzer.cc": '#include "codec/zstd.h"\n#include "support/input.h"\n',
        "fuzz/support/input.h": "#pragma once\n",
        "fuzz/support/input.cc": '#include "support/input.h"\n',
        "bench/rle_bench.cc": '#include <shardkit/rle.h>\n#include <benchmark/benchmark.h>\n',
    }
    faults = {
        "a lower layer includes a higher one": ("lib/base/a.cc", '#include "codec/zstd.h"\n', "stands above base"),
        "a private file includes a higher public header":
            ("lib/io/a.cc", '#  include "shardkit/shard_reader.h"\n', "stands above io"),
        "a public header includes a higher one":
            ("lib/include/shardkit/filesystem.h", '#include "shardkit/rle.h"\n', "stands above io"),
        "a public header includes a private one":
            ("lib/include/shardkit/rle.h", '#include "base/strings.h"\n', "private"),
        "a public header without a layer": ("lib/include/shardkit/new.h", "", "no layer"),
        "a layer nobody knows": ("lib/misc/a.cc", "", "not in the folder of a layer"),
        "a header that is not there": ("lib/codec/a.cc", '#include "codec/gone.h"\n', "is in no folder"),
        "a tool uses a private header": ("tools/shardctl/a.cc", '#include "base/strings.h"\n', "public headers only"),
        "a tool uses a private header by a path":
            ("tools/shardctl/a.cc", '#include "../../lib/base/strings.h"\n', "public headers only"),
        "a benchmark uses a private header in brackets":
            ("bench/a.cc", "#include <base/strings.h>\n", "public headers only"),
        "a fuzzer uses a public header that is not there":
            ("fuzz/a.cc", "#include <shardkit/gone.h>\n", "neither a public header"),
        "a fuzzer uses a private header of another layer":
            ("fuzz/a.cc", '#include "base/strings.h"\n', "public headers only"),
        "the library uses a tool": ("lib/io/a.cc", '#include "tools/shardctl/json.h"\n', "no part of the library"),
        "CUDA outside its files": ("lib/gpu/ring.cc", "#include <cuda_runtime.h>\n", "CUDA belongs"),
        "CUDA in another layer": ("lib/codec/a.cc", "#include <nvjpeg.h>\n", "CUDA belongs"),
        "a reader includes a writer":
            ("lib/container/a_reader.cc", '#include "container/write/shard_file_writer.h"\n', "independent"),
        "a writer depends on a reader through a third":
            ("lib/container/write/shard_file_writer.h", '#include "container/both.h"\n', "independent"),
        "a folder nobody knows": ("lib/io/extra/a.cc", "", "no room of the layer"),
        "parsing that reads files": ("lib/format/a.cc", '#include "shardkit/filesystem.h"\n', "reads no files"),
        "a second place that writes JSON": ("lib/io/a.cc", "#include <nlohmann/json.hpp>\n", "through base/json.h"),
        "a second place that reads JSON": ("lib/io/a.cc", "#include <simdjson.h>\n", "through base/json.h"),
        "a type that another file of the layer defines":
            ("lib/codec/zz.cc", "namespace shardkit {\nnamespace {\nclass Level : public Other {\n};\n}  // namespace\n}  // namespace shardkit\n", "Level is defined"),
        "a function that another file of the layer defines":
            ("lib/codec/zz.cc", "namespace shardkit {\nnamespace {\nint Works(int c, int d) {\n}\n}  // namespace\n}  // namespace shardkit\n", "Works(int, int)"),
        "a function that another layer defines":
            ("lib/io/a.cc", "namespace shardkit {\nvoid Compress() {\n}\n}  // namespace shardkit\n", "Compress() is defined"),
        "a private header outside its layer's namespace":
            ("lib/codec/a.h", "namespace shardkit {\nclass Decoder {\n};\n}  // namespace shardkit\n", "stands in shardkit::codec"),
        "a long file": ("lib/io/a.cc", "\n" * 801, "801 lines"),
        "a long script": ("tests/a.py", "\n" * 801, "801 lines"),
    }
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        def found(name, files):
            root = os.path.join(folder, name.replace(" ", "_"))
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return violations(root, headers)

        unexpected = found("sound", sound)
        if unexpected:
            missed.append(f"faults found where there are none: {unexpected}")
        both = {"lib/container/both.h": '#include "shardkit/shard_reader.h"\n'}
        for name, (path, text, expected) in faults.items():
            extra = both if "both.h" in text else {}
            result = found(name, {**sound, **extra, path: text})
            if not any(line.startswith(path + ":") and expected in line for line in result):
                missed.append(f"not found: {name} (found: {result})")
        for count in (MOST_FILES, MOST_FILES + 1):
            result = found(f"{count} files", {**sound, **{f"lib/io/{i}.h": "#pragma once\n" for i in range(count)}})
            if any("divide it" in line for line in result) != (count > MOST_FILES):
                missed.append(f"{count} files in a folder (found: {result})")
    return missed


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["--list-headers"]:
        print("\n".join(sorted(HEADER_LAYERS)))
        return 0
    if sys.argv[1:] not in ([], ["--self-test"]):
        print(__doc__, file=sys.stderr)
        return 2
    problems = self_test() if sys.argv[1:] else violations(root, HEADER_LAYERS)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
