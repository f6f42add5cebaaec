"""Shared by the tests of shardctl: running it, golden files, small inputs."""
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SHARDKIT_BUILD_DIR", os.path.join(ROOT, "build"))
SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", os.path.join(BUILD, "tools", "shardctl")))
DATA = os.path.abspath(os.environ.get("SHARDKIT_TEST_DATA", os.path.join(ROOT, "..", "shared", "data")))
# Then golden/*.txt are written from the command's present output: read the difference before you commit it.
STEP = int(os.environ.get("SHARDKIT_TEST_STEP", "1"))  # one of so many cases is taken: tests/support/effort.h
UPDATE = os.environ.get("SHARDKIT_UPDATE_GOLDEN") == "1"
# Speeds are not tested here, so that `bench` measures the machine only for a tenth of the time.
ENVIRONMENT = dict(os.environ, LC_ALL="C.UTF-8", SHARDKIT_TEST_HASTE="1")
TIMEOUT = 120  # seconds, per command


class Run:
    """One finished command."""

    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    @property
    def stdout(self):
        return self.out.decode("utf-8", "backslashreplace")

    @property
    def stderr(self):
        return self.err.decode("utf-8", "backslashreplace")

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        shown = b"".join(each[:4000] for each in (self.out, self.err)).decode("utf-8", "backslashreplace")
        return f"$ shardctl {' '.join(self.arguments)}\nexit {self.code}\n{shown}"


def memory():
    """A file system in memory with room for large tests, or None: the system's folder for temporary files.

    No test here needs what a power cut would leave, and flushes to a disk that others use, too, can take ten times as long as all else.
    """
    shared = "/dev/shm"
    return shared if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 1 << 30 else None


class CliTest(unittest.TestCase):
    """Each test has an empty folder, self.folder, in which its commands run."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shardctl-test-", dir=memory())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def shardctl(self, *arguments, code=0, **keywords):
        """Runs the command. Its exit code must be `code`; with None, anything but a crash is allowed."""
        arguments = [str(argument) for argument in arguments]
        done = subprocess.run([SHARDCTL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False,
                              **{"stdin": subprocess.DEVNULL, "cwd": self.folder, "env": ENVIRONMENT, **keywords})
        run = Run(arguments, done.returncode, done.stdout, done.stderr)
        self.check_no_crash(run)
        if code is not None:
            self.assertEqual(run.code, code, str(run))
        return run

    def start(self, *arguments, **keywords):
        """Starts the command and returns its subprocess.Popen."""
        process = subprocess.Popen([SHARDCTL, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords})
        self.addCleanup(self.stop, process)
        return process

    def interrupt(self, words, reached, number=signal.SIGINT, output="out"):
        """Runs a command and sends it a signal as soon as `reached()`; again while it ends first, as on a busy machine."""
        for _ in range(20):
            process = self.start(*words)
            while not reached() and process.poll() is None:
                time.sleep(0.0002)
            process.send_signal(number)
            out, err = process.communicate(timeout=TIMEOUT)
            if process.returncode != 0:
                return Run(words, process.returncode, out, err)
            shutil.rmtree(self.path(output))
        self.fail(f"{words} always ends before the signal comes")

    def wait_for_handler(self, process, number=signal.SIGINT):
        """Waits until the command handles the signal: from then on it is interrupted, and not ended by the system."""
        while process.poll() is None:
            with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as file:
                caught = int(re.search(r"^SigCgt:\s*(\w+)", file.read(), re.MULTILINE)[1], 16)
            if caught >> (number - 1) & 1:
                return
            time.sleep(0.001)
        self.fail(f"the command ended first, with exit status {process.returncode}")

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def check_no_crash(self, run):
        """No test expects a signal or a sanitizer's report."""
        if run.code < 0:
            self.fail(f"died of {signal.Signals(-run.code).name}\n{run}")
        self.assertNotRegex(run.stderr, r"Sanitizer|runtime error:|terminate called", str(run))

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def tree(self, name):
        """Relative path -> SHA-256 of every file below a folder."""
        found = {}
        for folder, _, files in os.walk(self.path(name)):
            for file_name in files:
                path = os.path.join(folder, file_name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.path(name))] = hashlib.sha256(file.read()).hexdigest()
        return found

    def dataset(self, name):
        """The same without the record of the job that made it. The result is equal for equal samples and options."""
        return {path: digest for path, digest in self.tree(name).items() if path != ".shardkit/job.json"}

    def golden(self, name, runs):
        """Compares the transcript of `runs` with golden/NAME.txt."""
        text = "".join(self.transcript(run) for run in runs)
        path = os.path.join(HERE, "golden", name + ".txt")
        if UPDATE:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        try:
            with open(path, encoding="utf-8") as file:
                expected = file.read()
        except FileNotFoundError:
            self.fail(f"{path} is missing: run the test with SHARDKIT_UPDATE_GOLDEN=1")
        self.assertMultiLineEqual(text, expected, f"{name}: output differs from golden/{name}.txt")

    def transcript(self, run):
        def lines(prefix, text):
            text = text.replace(os.path.realpath(self.folder), "FOLDER").replace(self.folder, "FOLDER")
            # Times, and values computed from them.
            text = re.sub(r"[0-9.]+ s(, [0-9.]+ MB/s)?$", "SECONDS", text, flags=re.MULTILINE)
            text = re.sub(r'"seconds": [0-9.e-]+', '"seconds": SECONDS', text)
            return "".join(f"{prefix}{line}".rstrip(" ") + "\n" if not line else f"{prefix}{line}\n"
                           for line in text.splitlines())
        return (f"$ shardctl {' '.join(run.arguments)}\n" + lines("  ", run.stdout) + lines("! ", run.stderr) +
                f"exit {run.code}\n\n")

    # ---- inputs ----

    def small_files(self, name="in"):
        """Five samples. Three have text, two JSON, one a photograph of 8 x 8 pixels, one bytes."""
        self.write(f"{name}/apple.txt", "An apple.\n")
        self.write(f"{name}/apple.json", '{"colour": "red", "weight": 0.15}')
        self.write(f"{name}/banana.txt", "A banana, and somewhat more about it than about the apple.\n")
        self.write(f"{name}/sub/cherry.json", '{"colour": "dark"}')
        self.write(f"{name}/sub/cherry.jpg", tiny_jpeg())
        self.write(f"{name}/sub/date.bin", bytes(range(256)))
        self.write(f"{name}/zucchini.txt", "")
        return name

    def plain_codecs(self, *columns):
        """Options that store columns uncompressed, because compressed sizes depend on the version of zstd."""
        return [word for column in columns for word in ("--codec", f"{column}=none")]

    def pack_small_files(self, output="out", *options):
        self.small_files()
        self.shardctl("pack", "in", "-o", output, *self.plain_codecs("key", "txt", "json"), *options)
        return output

    def small_sa1b(self, name="sa1b", count=3):
        """Pairs of SA-1B's form with a few rectangles for masks."""
        for i in range(1, count + 1):
            annotations = [annotation(100 * i + k, 16, 24, k, 2 * k, 3 + k, 4) for k in range(1 + i % 3)]
            image = {"image_id": i, "width": 24, "height": 16, "file_name": f"sa_{i}.jpg"}
            self.write(f"{name}/sa_{i}.json", json.dumps({"image": image, "annotations": annotations}))
            self.write(f"{name}/sa_{i}.jpg", tiny_jpeg(24, 16))
        return name

    def many_files(self, name="many", **options):
        many_files(self.path(name), **options)
        return name


def many_files(folder, count=400, size=4096):
    """Files of incompressible bytes, all different."""
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        seed = hashlib.sha256(str(i).encode()).digest()
        with open(os.path.join(folder, f"{i:06d}.bin"), "wb") as file:
            file.write(hashlib.shake_128(seed).digest(size))
    return folder


def tiny_jpeg(width=8, height=8):
    """A gray JPEG of equal pixels, made by hand (ITU-T T.81): one code of one bit in each Huffman table."""
    def segment(marker, body):
        return struct.pack(">BBH", 0xff, marker, len(body) + 2) + body
    one_code = bytes([1] + [0] * 15) + b"\x00"
    zeros = 2 * (-(-width // 8)) * (-(-height // 8))  # two codes for each block, then ones to the end of the byte
    bits = "0" * zeros + "1" * (-zeros % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big")
    return (b"\xff\xd8" + segment(0xdb, b"\x00" + b"\x01" * 64) +
            segment(0xc0, struct.pack(">BHHB3B", 8, height, width, 1, 1, 0x11, 0)) +
            segment(0xc4, b"\x00" + one_code) + segment(0xc4, b"\x10" + one_code) +
            segment(0xda, bytes([1, 1, 0, 0, 63, 0])) + scan + b"\xff\xd9")


def tiny_png(width=1, height=1, pixels=b"\x80", color=0, depth=8):
    """A PNG of these bytes, row by row: one gray pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = len(pixels) // height
    rows = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def tiny_bmp():
    """A BMP of two pixels, red and blue, of 24 bits."""
    return b"BM" + struct.pack("<IIIIiiHH6I", 62, 0, 54, 40, 2, 1, 1, 24, 0, 0, 0, 0, 0, 0) + b"\0\0\xff\xff\0\0\0\0"


def coco_text(runs):
    """Run lengths as COCO writes them (pycocotools, rleToString)."""
    text = ""
    for i, run in enumerate(runs):
        value = run - (runs[i - 2] if i > 2 else 0)
        while True:
            digit, value = value & 31, value >> 5
            more = value != (-1 if digit & 16 else 0)
            text += chr((digit | 32 if more else digit) + 48)
            if not more:
                break
    return text


def annotation(number, height, width, x, y, w, h):
    """An annotation of SA-1B whose mask is a rectangle."""
    runs = [x * height + y] + [h, height - h] * (w - 1) + [h, (width - x - w) * height + height - y - h]
    return {"segmentation": {"size": [height, width], "counts": coco_text(runs)}, "bbox": [x, y, w, h],
            "area": w * h, "predicted_iou": 0.9, "id": number, "crop_box": [0, 0, width, height],
            "stability_score": 0.95, "point_coords": [[x + 1.5, y + 1.0]]}
