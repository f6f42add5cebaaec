"""Mistakes of users: each has its exit code and a helpful message, and leaves nothing behind.

Interrupted commands are also in interrupt_test.py and convert_test.py, damage byte by byte in damage_test.py.
"""
import io
import os
import re
import shlex
import shutil
import signal
import tarfile

from support import CliTest, tiny_jpeg

READERS = {"ls": "ls {}", "inspect": "inspect {}", "cat": "cat {} --sample 0 --column txt", "validate": "validate {}",
           "unpack": "unpack {} -o OUT", "convert": "convert {} -o OUT --to shard", "filter": "filter {} -o OUT --range 0:1",
           "split": "split {} -o OUT --into a=50%", "plan": "plan {}",
           "bench": "bench {} --steps 1"}

JOB = '{\n  "format": "shardkit-job 2",\n  "fingerprint": "0123456789abcdef"\n}\n'  # that is not finished

# Input -> exit code and message of every command that reads a dataset; then the commands that differ.
WRONG_INPUTS = {
    "missing": (3, "missing: cannot stat: No such file or directory", {}),
    "dangling": (3, "dangling: cannot stat: No such file or directory", {}),
    "loop": (3, "loop: cannot stat: Too many levels of symbolic links", {}),
    "one.jpg/x": (3, "one.jpg/x: cannot stat: Not a directory", {}),
    "''": (2, "must not be empty", {}),
    "/dev/null": (3, "/dev/null: cannot open for reading: not a regular file", {}),
    "loose": (3, "loose: is no dataset; to make one of the files in it: shardctl pack loose -o OUT", {}),
    "loose/": (3, "is no dataset; to make one of the files in it: shardctl pack loose/ -o OUT", {}),
    "emptydir": (3, "emptydir: is no dataset; to make one of the files in it", {}),
    "emptydir/sub": (3, "emptydir/sub: is no dataset: the directory is empty", {}),
    "sets": (3, "sets: is no dataset, but holds some: give one of them, as sets/", {}),
    # Datasets of other programs.
    "others/saved": (3, "others/saved: is no dataset of Shardkit, but data-0.arrow in it holds many samples: "
                     "give sk.pack of Python datasets.load_from_disk(FOLDER)", {}),
    "others/splits": (3, "others/splits: is no dataset of Shardkit: give sk.pack of Python datasets.load_from_disk(FOLDER)", {}),
    "others/optimized": (3, "others/optimized: is no dataset of Shardkit, but chunk-0-0.bin in it holds many samples: "
                         "give sk.pack of Python shardkit.sources.litdata(FOLDER)", {}),
    "others/x.lance": (3, "others/x.lance: is no dataset of Shardkit: give sk.pack of Python lance.dataset(FOLDER)", {}),
    "others/lines": (3, "others/lines: is no dataset of Shardkit, but 0.jsonl.zst in it holds many samples: "
                     "pack with --from jsonl", {}),
    "others/sets": (3, "others/sets: is no dataset, but holds some: give one of them, as others/sets/ds", {}),
    "others/x.beton": (2, "others/x.beton: is no dataset of Shardkit, but holds many samples: pack the files", {}),
    "one.jpg": (1, "one.jpg: header magic is wrong: this is not a shard", {}),
    "one.json": (1, "one.json: header magic is wrong: this is not a shard", {}),
    "x.idx": (1, "x.idx: header magic is cut short: this is not a shard", {}),
    "text.shard": (1, "text.shard: header magic is wrong: this is not a shard", {}),
    "empty.shard": (1, "empty.shard: header magic is cut short: this is not a shard", {}),
    "empty.tar": (1, "empty.tar: is not a tar", {}),
    "empty.mds": (1, "empty.mds: ", {}),
    "ds/dataset.json": (2, "ds/dataset.json: is a part of a dataset: give the directory that holds it, ds", {}),
    "ds/dataset.segment": (2, "ds/dataset.segment: is a part of a dataset: give the directory that holds it, ds", {}),
    "lost": (3, "lost: dataset.json is missing, but there are shards: shardctl index lost rebuilds it", {}),
    "interrupted": (3, "interrupted: is being written, or its writer was interrupted: run that again with --resume", {}),
    "mdsnoindex": (3, "mdsnoindex: there are MDS shards, but no index.json", {}),
    "unlike": (2, "so that they are no one dataset: open one of them", {}),
    "badjson": (1, 'badjson/dataset.json: manifest: has no checksum: it was cut short', {}),
    "cut": (1, "cut/00000000.shard: trailer magic is missing: the shard was cut short", {"plan": (0, "")}),
    "noshard": (3, "noshard/00000000.shard: shard 0 of the manifest is missing; copy it again, or shardctl repair noshard",
                {"plan": (0, ""), "validate": (1, "shard 0 of the manifest is missing")}),
    "jsononly": (3, "jsononly/00000000.shard: shard 0 of the manifest is missing",
                 {"validate": (1, "shard 0 of the manifest is missing")}),
    # URLs that are refused before any request is sent.
    "s3:///x": (2, 's3:///x: "" is no name of a bucket; write s3://BUCKET/KEY', {}),
    "gs://a@b/x": (2, '"a@b" is no name of a bucket; write gs://BUCKET/KEY', {}),
    "https:///x.tar": (2, "https:///x.tar: has no host", {}),
    "https://user:secret@host/x.tar": (2, "https://host/x.tar: has a user name", {}),
    "hf://datasets/x": (2, "hf://datasets/x: write hf://datasets/OWNER/NAME", {}),
    "-dash": (2, 'unknown option "-dash"', {}),
    "'two words'": (3, "two words: cannot stat", {}),
    "$'new\\nline'": (3, "new\\nline: cannot stat", {}),
}

AS_FILES = "--from files packs the files as they are"
EMPTY = "there are no files in it: see that its file system is mounted; --allow-empty"
NOT_EMPTY = 'full: is not empty (there is "file"); give a new or an empty directory'
WITHIN = "the output lies within the input"
NO_COLUMN = 'there is no column "no"; there are: '

ROWS = [
    # pack: inputs that cannot be packed, or not as files.
    ("pack missing -o OUT", 3, "missing: cannot stat: No such file or directory"),
    ("pack loose missing -o OUT", 3, "missing: cannot stat: No such file or directory"),
    ("pack loose -o s3:///x", 2, 's3:///x: "" is no name of a bucket'),
    ("pack loose -o OUT --endpoint host", 2, '--endpoint: "host" is not http://HOST[:PORT] or https://HOST[:PORT]'),
    ("cache list", 2, "name the cache"),
    ("cache shrink --cache folder", 2, "shrink"),
    ("cache warm --cache folder", 2, "URL"),
    ("cache list folder --cache folder", 2, "no further"),
    ("cache list --cache nowhere", 3, "is not a cache"),
    ("bench out --cache-limit many", 2, "many"),
    ("uploads remove s3://bucket/x", 2, "remove"),
    ("uploads list", 2, "list|abort URL is missing"),
    ("uploads list folder", 2, "folder: is no URL"),
    ("uploads abort https://host/x", 3, "https://host/x: web servers and the hub can only be read"),
    ("pack one.jpg -o OUT", 2, "one.jpg: neither a directory nor a tar or zip: give the directory that holds the files"),
    ("pack one.json -o OUT", 2, "one.json: neither a directory nor a tar or zip"),
    ("pack text.shard -o OUT", 2, "text.shard: neither a directory nor a tar or zip"),
    ("pack empty.tar -o OUT", 2, "empty.tar: neither a directory nor a tar or zip"),
    ("pack others/x.beton -o OUT", 2, "others/x.beton: holds many samples, which the command does not read: pack the files"),
    ("pack /dev/null -o OUT", 2, "/dev/null: neither a directory nor a tar or zip"),
    ("pack ds/dataset.json -o OUT", 2, "ds/dataset.json: neither a directory nor a tar or zip"),
    ("pack loop -o OUT", 3, "loop: cannot stat"),
    ("pack ds -o OUT", 2, f"ds: is a dataset of shards: shardctl convert ds -o OUT --to shard makes a new dataset of its samples; {AS_FILES}"),
    ("pack loose ds -o OUT", 2, "ds: is a dataset of shards: shardctl convert ds"),
    ("pack ds/00000000.shard -o OUT", 2, "ds/00000000.shard: is a shard of a dataset: shardctl convert ds/00000000.shard"),
    ("pack cut -o OUT", 2, "cut: is a dataset of shards"),
    ("pack jsononly -o OUT", 2, "jsononly: is a dataset of shards"),
    ("pack lost -o OUT", 3, f"lost: dataset.json is missing, but there are shards: shardctl index lost rebuilds it; {AS_FILES}"),
    ("pack interrupted -o OUT", 3, "interrupted: is being written, or its writer was interrupted"),
    ("pack mdsnoindex -o OUT", 3, f"mdsnoindex: there are MDS shards, but no index.json: it was not copied with them, or the writing of them did not end; copy or write them again; {AS_FILES}"),
    ("pack unlike -o OUT", 2, f"open one of them; {AS_FILES}"),
    ("pack mds loose -o OUT", 2, f"loose: is not, as mds, a dataset of MDS: pack them apart, then merge them (shardctl merge); {AS_FILES}"),
    ("pack loose tars -o OUT", 2, "loose: is not, as tars, a directory of tars: pack them apart"),
    ("pack cuttars -o OUT", 1, "cuttars/0.tar: "),
    ("pack emptydir -o OUT", 2, f"emptydir: {EMPTY}"),
    ("pack emptydir/sub -o OUT", 2, f"emptydir/sub: {EMPTY}"),
    ("pack hidden -o OUT", 2, f"hidden: {EMPTY}"),
    ("pack loose emptydir -o OUT", 2, f"emptydir: {EMPTY}"),
    ("pack emptydir -o OUT --dry-run", 2, f"emptydir: {EMPTY}"),
    ("pack emptydir -o OUT --from files", 2, f"emptydir: {EMPTY}"),
    ("pack emptydir -o OUT --from sa1b", 2, f"emptydir: {EMPTY}"),
    ("pack --from mds loose -o OUT", 3, "loose: is no dataset"),
    ("pack --from webdataset ds -o OUT", 2, "ds: is a dataset of container shard, not webdataset"),
    ("pack --from imagefolder loose -o OUT", 2, "loose: no class directories; imagefolder expects INPUT/CLASS/IMAGE"),
    ("pack --from imagefolder good.tar -o OUT", 2, "good.tar: no class directories; imagefolder expects INPUT/CLASS/IMAGE"),
    ("pack --from imagefolder empty.tar -o OUT", 2, "empty.tar: not a tar file"),
    ("pack --from imagefolder one.jpg -o OUT", 2, "one.jpg: neither a directory nor a tar or zip: give the directory"),
    ("pack --from sa1b loose -o OUT", 3, "loose/a.jpg: there is no 'a.json' to go with it"),
    ("pack loose loose2 -o OUT", 2, 'loose2/a.bin: the key "a" occurs twice, first for loose/a.jpg: rename one'),
    ("pack loose loose -o OUT", 2, 'loose/a.jpg: the key "a" occurs twice, first for loose/a.jpg'),
    ("pack good.tar loose -o OUT", 2, "loose/a.jpg: the key \"a\" occurs twice, first for good.tar: member 'a.txt'"),
    ("pack classes classes -o OUT", 2, 'classes/cat/1.jpg: the key "cat/1.jpg" occurs twice, first for classes/cat/1.jpg'),
    ("pack nonutf8 -o OUT", 2, "UTF-8"),
    # Places of the output.
    ("pack loose -o full", 2, NOT_EMPTY),
    ("pack loose -o ds", 2, "ds: already holds a dataset; give another directory, or remove it first"),
    ("pack loose -o mds", 2, "mds: is not empty"),
    ("pack loose -o one.jpg", 2, "one.jpg: is there, and is no directory: give another name"),
    ("pack loose -o one.jpg/x", 2, "one.jpg: is there, and is no directory"),
    ("pack loose -o dangling", 2, "dangling: is there, and is no directory"),
    ("pack loose -o loose/out", 2, f"loose/out: {WITHIN}"),
    ("pack loose -o loose", 2, f"loose: {WITHIN}"),
    ("pack . -o OUT", 2, f"OUT: {WITHIN}"),
    ("pack loose -o ./loose/../loose/x", 2, WITHIN),
    ("convert ds -o full --to mds", 2, NOT_EMPTY),
    ("convert ds -o ds --to shard", 2, f"ds: {WITHIN}"),
    ("convert ds -o ds/new --to mds", 2, f"ds/new: {WITHIN}"),
    ("convert ds -o sets/a --to shard", 2, "sets/a: already holds a dataset"),
    ("convert ds -o mds --to mds --lossy", 2, "mds: already holds a dataset"),
    ("convert ds -o one.jpg --to shard", 2, "one.jpg: is there, and is no directory"),
    ("unpack ds -o full", 2, NOT_EMPTY),
    ("unpack ds -o ds", 2, f"ds: {WITHIN}"),
    ("unpack ds -o ds/files", 2, f"ds/files: {WITHIN}"),
    ("unpack ds -o loose", 2, "loose: is not empty"),
    ("unpack ds -o one.jpg", 2, "one.jpg: is there, and is no directory"),
    ("repair cut -o full", 2, NOT_EMPTY),
    ("repair ds -o ds", 2, f"ds: {WITHIN}"),
    ("repair ds -o ds/new", 2, f"ds/new: {WITHIN}"),
    ("repair ds/00000000.shard -o ds/00000000.shard", 2, "would write over"),
    ("repair ds/00000000.shard -o one.jpg", 2, "one.jpg: already exists"),
    ("merge ds -o full", 2, NOT_EMPTY),
    ("merge ds -o ds", 2, "the output lies within the input"),
    ("merge ds -o one.jpg", 2, "one.jpg: is there, and is no directory"),
    ("synth files -o one.jpg --count 1", 2, "one.jpg: is there, and is no directory"),
    ("cat ds --sample 0 -c txt -o full", 2, "full: is a directory: give the name of a file"),
    ("cat ds --sample 0 -c txt -o no/such/file", 3, "no/such/file: its directory does not exist"),
    ("bench ds --trace full", 2, "full: is a directory"),
    # Wrong inputs for an index, a merge, a repair.
    ("index missing", 3, "missing: cannot stat"),
    ("index loose", 3, "loose: is no dataset; to make one of the files in it: shardctl pack loose"),
    ("index emptydir/sub", 3, "emptydir/sub: is no dataset: the directory is empty"),
    ("index one.jpg", 2, "one.jpg: is a file, and the offset index belongs to datasets: give the directory"),
    ("index ds/dataset.json", 2, "ds/dataset.json: is a file"),
    ("index interrupted", 3, "interrupted: an unfinished job lies there; finish it with pack --resume first"),
    ("index jsononly", 3, "jsononly/00000000.shard: the shard is in the manifest, but is missing; copy it again, or shardctl repair jsononly"),
    ("index mds", 3, "mds: is a dataset of another container: shardctl convert mds"),
    ("index empty.tar", 1, "empty.tar: is not a tar"),
    ("index --dali loose", 3, "loose: holds no tar files"),
    ("index --dali one.jpg", 2, "one.jpg: is no tar: give tars, or directories of tars"),
    ("merge missing -o OUT", 3, "missing: cannot stat"),
    ("merge loose -o OUT", 3, "loose: is no dataset"),
    ("merge one.jpg -o OUT", 2, "one.jpg: is a file: give the directory of a dataset"),
    ("merge tars -o OUT", 3, "tars: is a dataset of another container: shardctl convert tars -o OUT --to shard"),
    ("merge ds lost -o OUT", 3, "lost: dataset.json is missing, but there are shards: shardctl index lost"),
    ("merge s3:///x -o OUT", 2, 's3:///x/dataset.json: "" is no name of a bucket'),
    ("repair missing -o OUT", 3, "missing: cannot stat"),
    ("repair loose -o OUT", 3, "loose: there is neither a dataset.json nor a shard (*.shard) in it"),
    ("repair one.jpg -o OUT", 1, "one.jpg: header magic is wrong"),
    ("repair /dev/null -o OUT", 2, "/dev/null: is not a file"),
    ("repair jsononly -o OUT", 1, "nothing could be recovered; OUT was not written"),
    # Missing columns, keys and samples.
    ("cat ds --sample 0 -c no", 1, f"ds: {NO_COLUMN}key, jpg, txt"),
    ("cat ds --sample 3 -c txt", 1, "ds: there is no sample 3: the last is 2"),
    ("cat ds --key no -c txt", 1, 'ds: no sample has the key "no"'),
    ("cat mds --key no -c txt", 1, 'mds: no sample has the key "no"'),
    ("cat tars --key no -c txt", 1, 'tars: no sample has the key "no"'),
    ("cat tars --key d -c json", 1, "tars: "),
    ("inspect ds --sample 3", 1, "ds: there is no sample 3: the last is 2"),
    ("inspect ds --key no", 1, 'ds: no sample has the key "no"'),
    ("inspect ds --shard 1", 1, "ds: there is no shard 1: it has 1"),
    ("inspect ds --block 1", 1, "there is no block 1: it has 1"),
    ("unpack ds -o OUT --samples 4:", 1, "ds: there is no sample 4: the last is 2"),
    ("plan ds --label no", 1, f"ds: {NO_COLUMN}key, jpg, txt"),
    ("bench ds --columns no", 1, 'ds: --columns: there is no column "no"'),
    ("pack loose -o OUT --codec no=none", 1, f"--codec: {NO_COLUMN}key, jpg, txt"),
    ("pack loose -o OUT --codec no=zstd:3", 1, f"--codec: {NO_COLUMN}key, jpg, txt"),
    ("pack loose -o OUT --dictionary no", 1, f"--dictionary: {NO_COLUMN}key, jpg, txt"),
    ("pack loose -o OUT --codec no=none --dry-run", 1, f"--codec: {NO_COLUMN}key, jpg, txt"),
    ("pack loose -o OUT --codec no=none --resume", 1, f"--codec: {NO_COLUMN}key, jpg, txt"),
    ("pack good.tar -o OUT --codec no=none", 1, f"--codec: {NO_COLUMN}key, txt"),
    ("pack good.tar -o OUT --codec no=none --resume --shard-samples 1", 1, f"--codec: {NO_COLUMN}key, txt"),
    ("pack good.tar -o OUT --codec no=none --dry-run", 1, f"--codec: {NO_COLUMN}key, txt"),
    ("pack tars -o OUT --codec no=none", 1, f"--codec: {NO_COLUMN}key, "),
    ("pack mds -o OUT --codec no=none", 1, f"--codec: {NO_COLUMN}"),
    ("pack classes -o OUT --codec no=none", 1, f"--codec: {NO_COLUMN}key, image, label, class_name"),
    ("pack loose -o OUT --storage no=blob", 1, f"--storage: {NO_COLUMN}key, jpg, txt"),
    ("pack loose -o OUT --storage txt=blob", 2, 'OUT: column "txt": only a column of codec none'),
    ("convert ds -o OUT --to mds --storage jpg=blob", 2, "--storage: only for --to shard"),
    ("pack loose -o OUT --dictionary jpg", 2, 'OUT: column "jpg": only a column of codec zstd has a dictionary'),
    ("convert ds -o OUT --to shard --codec no=none", 1, f"--codec: {NO_COLUMN}key, jpg, txt"),
    ("convert ds -o OUT --to shard --codec no=none --dry-run", 1, f"--codec: {NO_COLUMN}"),
    ("convert tars -o OUT --to shard --codec no=none", 1, f"--codec: {NO_COLUMN}"),
    ("convert ds -o OUT --to shard --columns txt --codec jpg=none", 1, '--codec: there is no column "jpg"; there are: key, txt'),
    ("convert ds -o OUT --to mds --columns no", 1, f"ds: {NO_COLUMN}key, jpg, txt"),
    ("convert ds -o OUT --to mds --key no", 1, f"ds: {NO_COLUMN}key, jpg, txt"),
    ("convert ds -o OUT --to mds --key jpg", 2, 'ds: column "jpg" of type jpeg: a key is of type utf8'),
    ("convert ds -o OUT --to mds --encoding no=int", 1, f"--encoding: {NO_COLUMN}"),
    ("convert ds -o OUT --to mds --encoding no=int --dry-run", 1, f"--encoding: {NO_COLUMN}"),
    ("convert ds -o OUT --to mds --lossy --encoding txt=int", 2, 'OUT: column "txt" of type utf8: encoding int stores'),
    ("convert ds -o OUT --to mds --hash md6", 2, "OUT: "),
    ("convert ds -o OUT --to mds --compression lz4", 2, "OUT: "),
    # Options (usage_test.py tests each word and number).
    ("pack loose -o OUT -j -1", 2, "--jobs"),
    ("pack loose -o OUT --shard-size 1.5", 2, "--shard-size"),
    ("pack loose -o OUT --codec txt=lz4", 2, "--codec"),
    ("pack loose -o OUT --from tar", 2, "auto, files, imagefolder, sa1b, coco, jsonl, table, webdataset, mds"),
    ("pack loose", 2, "-o OUT is missing"),
    ("convert ds -o OUT", 2, "--to is missing: shard, webdataset or mds"),
    ("convert ds -o OUT --to tar", 2, "shard, webdataset, mds"),
    ("convert ds -o OUT --to mds --codec txt=none", 2, "--codec: only for --to shard"),
    ("unpack ds -o OUT --samples 2:1", 2, '--samples: "2:1" is not a range'),
    ("plan ds --world-size 2 --rank 2", 2, "--rank: 2 is not below --world-size, 2"),
    ("plan ds --cursor {}", 2, "--cursor: "),
    ("ls ds ds", 2, 'unexpected argument "ds"'),
    ("cat ds", 2, "--column is missing"),
    ("frobnicate", 2, 'unknown command "frobnicate"'),
]

JARGON = re.compile(r"NOT_FOUND|INVALID_ARGUMENT|DATA_LOSS|FAILED_PRECONDITION|OUT_OF_RANGE|StatusOr|absl|std::|what\(\)|\.cc:\d")
LINE = re.compile(r"shardctl( [a-z0-9]+)*: \S.*")


class FolderTest(CliTest):
    """All tests of a class run in one folder and leave it unchanged."""

    @classmethod
    def setUpClass(cls):
        made = cls("make_folder")
        made.setUp()
        cls.addClassCleanup(made.doCleanups)
        made.make_folder()
        cls.made = made.folder

    def setUp(self):
        super().setUp()
        self.folder = getattr(self, "made", self.folder)

    def tar(self, name, members):
        self.write(name, "")
        with tarfile.open(self.path(name), "w", format=tarfile.USTAR_FORMAT) as tar:
            for member in members:
                info = tarfile.TarInfo(member)
                info.size = len(member)
                tar.addfile(info, io.BytesIO(member.encode()))

    def copy(self, name, *without):
        shutil.copytree(self.path("ds" if not name.startswith("mds") else "mds"), self.path(name),
                        ignore=shutil.ignore_patterns(*without))

    def make_folder(self):
        for key in "abc":
            self.write(f"loose/{key}.txt", key * 10)
            self.write(f"loose/{key}.jpg", tiny_jpeg())
        self.write("loose2/a.bin", "a")
        for name in ("classes/cat/1.jpg", "classes/dog/2.jpg", "one.jpg"):
            self.write(name, tiny_jpeg())
        for name, text in [("one.json", '{"a": 1}'), ("text.shard", "this is text\n" * 20), ("empty.shard", ""), ("empty.tar", ""),
                           ("empty.mds", ""), ("x.idx", "0 1\n"), ("full/file", "x"), ("hidden/.DS_Store", "x"),
                           ("hidden/.git/config", "x")]:
            self.write(name, text)
        for name in ("saved/data-0.arrow", "saved/state.json", "splits/dataset_dict.json", "splits/train/data-0.arrow",
                     "optimized/index.json", "optimized/chunk-0-0.bin", "x.lance/_versions/1.manifest", "lines/0.jsonl.zst", "x.beton", "sets/a.csv"):
            self.write(f"others/{name}", "{}")
        os.makedirs(self.path("emptydir/sub"))
        self.tar("good.tar", ["a.txt", "b.txt"])
        self.tar("tars/0.tar", ["a.txt", "b.txt", "b.json"])
        self.tar("tars/1.tar", ["d.txt"])
        self.write("cuttars/0.tar", self.read("tars/0.tar")[:700])
        os.symlink("loop", self.path("loop"))
        os.symlink("nothing", self.path("dangling"))
        self.write(b"nonutf8/\xff\xfe.txt".decode("utf-8", "surrogateescape"), "x")
        self.shardctl("pack", "loose", "-o", "ds")
        lossy = ["--to", "mds", "--lossy"]
        self.shardctl("convert", "ds", "-o", "mds", *lossy)
        self.shardctl("convert", "ds", "-o", "unlike/train", *lossy)
        self.shardctl("convert", "ds", "-o", "unlike/val", "--columns", "txt", *lossy)
        self.copy("mdsnoindex", "index.json")
        self.copy("lost", "dataset.json")
        self.copy("interrupted", "dataset.json")
        self.write("interrupted/.shardkit/job.json", JOB)
        self.copy("noshard", "*.shard")
        self.copy("jsononly", "*.shard", "dataset.segment")
        self.copy("badjson")
        self.write("badjson/dataset.json", "{}")
        self.copy("cut")
        os.truncate(self.path("cut/00000000.shard"), 200)
        self.copy("others/sets/ds")
        self.copy("sets/a")
        self.copy("sets/b")


class MistakesTest(FolderTest):
    def listing(self):
        """The folder's names and lengths: nothing may appear, disappear, or change its length."""
        return sorted((folder, sorted(folders), sorted((name, os.lstat(os.path.join(folder, name)).st_size) for name in names))
                      for folder, folders, names in os.walk(self.folder))

    def check(self, words, code, says, before):
        run = self.shardctl(*words, code=None)
        self.assertEqual(run.code, code, str(run))
        self.assertIn(says, run.stderr, str(run))
        if code:
            self.assertTrue(run.stderr, str(run))
        for line in run.stderr.splitlines():
            self.assertRegex(line, LINE, str(run))
            self.assertNotRegex(line, JARGON, str(run))
            self.assertNotRegex(line, r"(?<![^ ])(\S+): \1[:/ ]", f"{run}\nthe path occurs twice")
        if os.path.lexists(self.path("OUT")) and code == 0:
            shutil.rmtree(self.path("OUT"))
        self.assertEqual(self.listing(), before, f"{run}\nleft something behind")
        return run

    def test_rows(self):
        before = self.listing()
        for line, code, says in ROWS:
            with self.subTest(line):
                self.check(shlex.split(line), code, says, before)

    def test_wrong_inputs_of_readers(self):
        before = self.listing()
        for path, (code, says, others) in WRONG_INPUTS.items():
            for verb, line in READERS.items():
                expected = others.get(verb, (code, says))
                name = "new\nline" if path.startswith("$") else shlex.split(path)[0]
                words = [name if word == "{}" else word for word in line.split()]
                with self.subTest(words=words):
                    self.check(words, *expected, before)

    def test_odd_names(self):
        before = self.listing()
        self.check(["ls", b"\xff\xfe".decode("utf-8", "surrogateescape")], 3, "\\xff\\xfe: cannot stat", before)
        self.check(["ls", "a" * 300], 2, "File name too long", before)
        self.check(["ls", "--", "-dash"], 3, "-dash: cannot stat", before)
        self.check(["ls", "--", "--shards"], 3, "--shards: cannot stat", before)
        self.check(["ls", "./ds/../ds/."], 0, "", before)
        self.check(["ls", "emptydir/sub/.."], 3, "emptydir/sub/..: is no dataset", before)
        for name in ("two words", "new\nline", "-dash", "ünïcode", "a:b", "tail/"):
            with self.subTest(name=name):
                self.shardctl("pack", "loose", "-o", name)
                self.shardctl("validate", "--", name)
                self.assertEqual(self.shardctl("ls", "--", name).stdout.split(), ["0", "a", "1", "b", "2", "c"])
                run = self.shardctl("pack", "loose", f"--output={name}", code=2)
                self.assertIn(": already holds a dataset", run.stderr)
                self.assertEqual(len(run.stderr.splitlines()), 1, str(run))
                shutil.rmtree(self.path(name))

    def test_again(self):
        """Repeating a command does no harm: it is refused, or gives the same result."""
        for line, code, says in [
                ("pack loose -o again", 2, "again: already holds a dataset"), ("index again", 0, ""),
                ("convert again -o again.mds --to mds --lossy", 2, "again.mds: already holds a dataset"),
                ("convert again -o again.tars --to webdataset", 2, "again.tars: already holds a dataset"),
                ("unpack again -o again.files", 2, "again.files: is not empty"),
                ("repair again -o again.whole", 2, "again.whole: already holds a dataset"),
                ("merge again -o again.merged", 2, "again.merged: already holds a dataset"),
                ("pack loose -o again --resume", 0, ""), ("synth files -o again.synth --count 1", 2, "ask to overwrite")]:
            with self.subTest(line):
                words = line.split()
                if "--resume" not in words:
                    self.shardctl(*words)
                self.check(words, code, says, self.listing())
        for name in os.listdir(self.folder):
            if name.startswith("again"):
                shutil.rmtree(self.path(name))

    def test_directory_without_permission(self):
        closed = self.path("closed")
        os.makedirs(closed)
        os.chmod(closed, 0)
        self.addCleanup(os.rmdir, closed)
        os.chmod(self.folder, 0o755)
        other = {"user": 65534} if os.geteuid() == 0 else {}
        try:
            self.shardctl("--version", **other)
        except PermissionError:
            self.skipTest("another user cannot run the command")
        for words in (["ls", "closed"], ["validate", "closed"], ["pack", "closed", "-o", "/tmp/OUT"], ["index", "closed"],
                      ["convert", "closed", "-o", "/tmp/OUT", "--to", "mds"]):
            with self.subTest(words=words):
                run = self.shardctl(*words, code=3, **other)
                self.assertRegex(run.stderr, r"^shardctl: closed(/[a-z.]+)?: cannot .*: Permission denied\n$", str(run))

    def test_empty_input_that_is_meant(self):
        for line in ("pack emptydir -o empty --allow-empty", "pack hidden/.git emptydir --from files -o empty --allow-empty"):
            with self.subTest(line):
                self.shardctl(*line.split())
                self.shardctl("validate", "empty")
                shutil.rmtree(self.path("empty"))

    def test_interrupted(self):
        self.many_files("many", count=1500)
        self.shardctl("pack", "many", "-o", "manyds", "--block-size", "64KiB")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for line in ("pack many -o OUT --shard-samples 10", "convert manyds -o OUT --to shard --shard-samples 10",
                         "convert manyds -o OUT --to webdataset --shard-samples 10", "unpack manyds -o OUT"):
                with self.subTest(signal=number.name, line=line):
                    before = self.listing()
                    run = self.interrupt(line.split(), lambda: os.path.exists(self.path("OUT")), number, output="OUT")
                    self.assertEqual((run.code, run.stdout), (3, ""), str(run))
                    self.assertEqual(run.stderr, "shardctl: interrupted; nothing was left behind\n")
                    self.assertEqual(self.listing(), before)
        for name in ("many", "manyds"):
            shutil.rmtree(self.path(name))


class ContainersTest(FolderTest):
    """pack takes the samples out of other containers, as convert does."""

    def pack(self, line, source, samples, columns):
        run = self.shardctl("pack", *line.split(), "-o", "new", "--json")
        document = run.json()
        shutil.rmtree(self.path("new"))
        self.assertEqual((document["source"], document["samples"]), (source, samples), str(run))
        self.assertEqual([column["name"] for column in document["columns"]], columns, str(run))
        return run.stderr

    def test_samples_of_containers(self):
        self.shardctl("convert", "ds", "-o", "streams/train", "--to", "mds", "--lossy")
        self.shardctl("convert", "ds", "-o", "streams/val", "--to", "mds", "--lossy")
        self.shardctl("convert", "ds", "-o", "webds", "--to", "webdataset")
        self.write("webds/.DS_Store", "x")
        sa1b = self.small_sa1b("pairs", count=4)
        for number in (0, 1):
            path = self.path("sa1btars", f"sa_00000{number}.tar")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
                for i in (2 * number + 1, 2 * number + 2):
                    for ending in ("jpg", "json"):
                        tar.add(self.path(sa1b, f"sa_{i}.{ending}"), f"./sa_{i}.{ending}")
        for line, source, samples, columns in [
                ("tars", "webdataset", 3, ["key", "txt", "json"]), ("tars good.tar", "webdataset", 5, ["key", "txt", "json"]),
                ("webds", "webdataset", 3, ["key", "jpg", "txt"]), ("mds", "mds", 3, ["key", "jpg", "txt"]),
                ("mds/index.json", "mds", 3, ["key", "jpg", "txt"]), ("mds/shard.00000.mds", "mds", 3, ["key", "jpg", "txt"]),
                ("streams", "mds", 6, ["key", "jpg", "txt"]), ("good.tar", "files", 2, ["key", "txt"])]:
            with self.subTest(line):
                self.assertEqual(self.pack(line, source, samples, columns), "")
        run = self.shardctl("pack", "sa1btars", "-o", "new", "--json")
        self.assertEqual((run.json()["source"], run.json()["samples"]), ("sa1b", 4), str(run))
        self.shardctl("pack", "sa1btars/sa_000000.tar", "sa1btars/sa_000001.tar", "-o", "named")
        self.assertEqual(self.read("new", "00000000.shard"), self.read("named", "00000000.shard"))

    def test_tasks_of_tars_may_lack_a_column(self):
        """Only one late sample has the column. Its task cannot be known in advance."""
        self.tar("one.tar", [f"{i:04d}.txt" for i in range(300)])
        self.tar("two.tar", [f"{i:04d}.txt" for i in range(300, 600)] + ["0600.rare"])
        self.shardctl("plan-pack", "one.tar", "two.tar", "-o", "tasks", "--codec", "rare=none", "--tasks", "2")
        for task in ("0/2", "1/2"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        run = self.shardctl("pack", "-o", "tasks", "--finish", "--json")
        self.assertEqual(sorted(column["name"] for column in run.json()["columns"]), ["key", "rare", "txt"])
        # What no sample has is found in the end.
        self.shardctl("plan-pack", "one.tar", "-o", "other", "--codec", "rare=none", "--tasks", "1")
        self.shardctl("pack", "-o", "other", "--task", "0/1")
        self.assertIn('"rare"', self.shardctl("pack", "-o", "other", "--finish", code=1).stderr)

    def test_files_where_it_is_said(self):
        for line, samples, columns in [
                ("ds --from files", 3, ["key", "json", "segment", "shard"]),
                ("mds --from files", 4, ["key", "00000.mds", "json"]),
                ("tars --from files", 2, ["key", "tar"])]:
            with self.subTest(line):
                self.assertEqual(self.pack(line, "files", samples, columns), "")

    def test_mixed_trees_are_files_with_a_note(self):
        self.write("mixed/a.txt", "x")
        for name, ending in (("good.tar", "tar"), ("ds/00000000.shard", "shard"), ("mds/shard.00000.mds", "00000.mds")):
            with self.subTest(name):
                os.makedirs(self.path("mixed/sub"))
                shutil.copy(self.path(name), self.path("mixed/sub", os.path.basename(name)))
                columns = sorted(["txt", ending])
                note = self.pack("mixed", "files", 2, ["key", *columns])
                self.assertEqual(note, f"shardctl: note: files *.{ending.split('.')[-1]} of the input are packed as they are, not the samples in "
                                 "them: to have those, pack or convert them by themselves (--from files says that it is meant)\n")
                self.assertEqual(self.pack("mixed --from files", "files", 2, ["key", *columns]), "")
                shutil.rmtree(self.path("mixed/sub"))

    def test_index_json_of_others(self):
        """index.json is a common name. Without MDS shards it is an ordinary file."""
        self.write("site/index.json", '{"pages": []}')
        self.write("site/dataset.json", '{"name": "site"}')
        self.write("site/sub/index.json", "[]")
        self.pack("site", "files", 3, ["key", "json"])
