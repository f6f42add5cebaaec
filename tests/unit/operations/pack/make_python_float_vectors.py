"""Writes python_float_vectors.txt: repr() of doubles of every magnitude, near the limits of notation and exact."""
import random
import struct
import sys

random.seed(20260101)
values = [0.0, -0.0, 1e16, 9999999999999998.0, 1e-4, 9.999999999999999e-05, 5e-324, 1.7976931348623157e308, 2.0**53,
          2.0**53 + 2, 1e15, 123456789012345.6, 1e22, 1e23, 0.1, 1 / 3, 1e100, 2.2250738585072014e-308]
values += [10.0**e for e in range(-30, 30)] + [-(10.0**e) / 3 for e in range(-12, 20)]
values += [random.randrange(0, 4000) / 16 for _ in range(300)]
values += [random.random() for _ in range(500)]
values += [random.random() * 10 ** random.randrange(-8, 20) for _ in range(500)]
values += [float(random.randrange(0, 10**16)) for _ in range(200)]
while len(values) < 2200:
    value = struct.unpack("<d", random.randbytes(8))[0]
    if value == value and abs(value) != float("inf"):
        values.append(value)
sys.stdout.write("".join(repr(value) + "\n" for value in values))
