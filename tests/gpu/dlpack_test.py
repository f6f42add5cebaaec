#!/usr/bin/env python3
"""DLPack tensors of device batches, read by NumPy and PyTorch.

SHARDKIT_BUILD_DIR names the build. NumPy supports the versioned tensor from 2.1 on. PyTorch is tested if it is installed.
"""

import ctypes
import glob
import os
import unittest

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

VALUES, OFFSETS, PRESENT = 0, 1, 4
FLOATS = [[row + column / 4 for column in range(3)] for row in range(6)]
NUMBERS = [[100 * row + column for column in range(4)] for row in range(6)]

capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype = ctypes.py_object
capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def load():
    folder = os.path.join(os.environ.get("SHARDKIT_BUILD_DIR", "build"), "tests", "unit", "gpu", "device")
    found = glob.glob(os.path.join(folder, "libdlpack_export.so"))
    if not found:
        raise unittest.SkipTest("libdlpack_export.so is not built (sanitizers)")
    library = ctypes.CDLL(found[0])
    library.shardkit_test_dlpack.restype = ctypes.c_void_p
    library.shardkit_test_dlpack.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    library.shardkit_test_error.restype = ctypes.c_char_p
    return library


class Exporter:
    """The interface through which frameworks import a tensor."""

    def __init__(self, library, column, array=VALUES):
        self.library, self.column, self.array = library, column, array

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = max_version is not None and max_version[0] >= 1
        tensor = self.library.shardkit_test_dlpack(self.column.encode(), self.array, int(versioned))
        if not tensor:
            raise BufferError(self.library.shardkit_test_error().decode())
        return capsule(tensor, b"dltensor_versioned" if versioned else b"dltensor", None)


class Dlpack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = load()

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy(self):
        floats = numpy.from_dlpack(Exporter(self.library, "f32"))
        self.assertEqual((floats.dtype, floats.shape), (numpy.float32, (6, 3)))
        self.assertEqual(floats.tolist(), FLOATS)
        numbers = numpy.from_dlpack(Exporter(self.library, "i16"))
        self.assertEqual((numbers.dtype, numbers.tolist()), (numpy.int16, NUMBERS))
        offsets = numpy.from_dlpack(Exporter(self.library, "text", OFFSETS))
        self.assertEqual((offsets.dtype, offsets.tolist()), (numpy.int64, [0, 0, 1, 1, 4, 8, 13]))
        self.assertEqual(bytes(numpy.from_dlpack(Exporter(self.library, "text"))), b"x" * 13)
        self.assertEqual(numpy.from_dlpack(Exporter(self.library, "text", PRESENT)).tolist(), [1, 1, 0, 1, 1, 1])
        with self.assertRaisesRegex(BufferError, "no such array"):
            numpy.from_dlpack(Exporter(self.library, "f32", OFFSETS))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_pytorch(self):
        floats = torch.from_dlpack(Exporter(self.library, "f32"))
        self.assertEqual((floats.dtype, floats.tolist()), (torch.float32, FLOATS))
        again = torch.utils.dlpack.from_dlpack(Exporter(self.library, "i16").__dlpack__())
        self.assertEqual((again.dtype, again.tolist()), (torch.int16, NUMBERS))
        # Versioned, if supported.
        if getattr(torch, "__version__", "0") >= "2.9":
            capsule_of = Exporter(self.library, "i16").__dlpack__(max_version=(1, 0))
            self.assertEqual(torch.utils.dlpack.from_dlpack(capsule_of).tolist(), NUMBERS)


if __name__ == "__main__":
    unittest.main()
