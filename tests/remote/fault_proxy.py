"""A proxy with faults between a client and any HTTP server, on loopback.

    with FaultProxy("http://127.0.0.1:8000", Faults(seed=1, shares={"busy": 0.05})) as proxy:
        read(proxy.origin)

What happens to a request is drawn from the seed, the request's path and range, and how often it was asked before: the same for every run,
whatever the order in which threads ask.
"""
import collections
import dataclasses
import http.client
import http.server
import random
import re
import socket
import struct
import threading
import time
import urllib.parse

SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection", "content-length", "date", "server"}
PIECE = 64 << 10

KINDS = (
    "busy",  # status 503
    "slow_down",  # status 503, as S3 says it
    "stall",  # nothing for a while, in the middle of the body
    "reset",  # the connection is reset in the middle of the body
    "cut",  # the connection is closed in the middle of the body
    "flip",  # one bit of the body is another; only when these bytes are asked for the first time
    "whole",  # the range is ignored; not for requests that are signed
)


@dataclasses.dataclass(frozen=True)
class Faults:
    seed: int = 0
    latency: float = 0  # seconds before each answer
    bandwidth: float = 0  # bytes per second of all connections together; 0: as many as there are
    shares: dict = dataclasses.field(default_factory=dict)  # of the requests, by kind; the rest is passed on unharmed
    stall: float = 2  # seconds
    change_after: int = 0  # so many answers for a shard later it is another object; 0: never


Request = collections.namedtuple("Request", ["method", "path", "range", "status", "kind", "bytes"])


class FaultProxy:
    """Thread-safe. `requests` lists what was answered."""

    def __init__(self, upstream, faults=Faults(), tls=None):
        self.upstream = urllib.parse.urlsplit(upstream)
        self.faults = faults
        self.requests = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._asked = collections.Counter()
        self._free = 0.0  # when the next byte may be sent
        proxy = self

        class BoundHandler(_Handler):
            def __init__(self, *arguments):
                self.proxy = proxy
                super().__init__(*arguments)

        self._server = _Server(("127.0.0.1", 0), BoundHandler)
        if tls is not None:
            # Shaken hands in the connection's own thread, not in the one that accepts.
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_port
        self.origin = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def draw(self, method, path, byte_range):
        """The kind of fault of the next such request (None: none), a source of further chances, and whether the object is another now."""
        with self._lock:
            shard = path.split("?")[0]
            self._asked[shard] += 1
            nth = self._asked[method, path, byte_range] = self._asked[method, path, byte_range] + 1
            changed = 0 < self.faults.change_after < self._asked[shard] and shard.endswith(".shard")
        chances = random.Random(f"{self.faults.seed} {method} {path} {byte_range} {nth}")
        chance = chances.random()
        for kind in KINDS:
            chance -= self.faults.shares.get(kind, 0)
            if chance < 0:
                return kind if kind != "flip" or nth == 1 else None, chances, changed
        return None, chances, changed

    def pace(self, count):
        """Waits until so many bytes may be sent."""
        if not self.faults.bandwidth:
            return
        with self._lock:
            begin = self._free = max(self._free, time.monotonic())
            self._free += count / self.faults.bandwidth
        self.closing.wait(max(0, begin - time.monotonic()))

    def record(self, request):
        with self._lock:
            self.requests.append(request)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # clients that went away


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def setup(self):
        super().setup()
        upstream = self.proxy.upstream
        self.server_connection = http.client.HTTPConnection(upstream.hostname, upstream.port, timeout=60)

    def finish(self):
        self.server_connection.close()
        super().finish()

    def ask(self, without=()):
        """(status, headers, body) of the server."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        connection = self.server_connection
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in {"connection", "expect", *without}:
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        if answer.will_close:
            connection.close()
        return answer.status, answer.getheaders(), content

    def handle_request(self):
        faults, proxy = self.proxy.faults, self.proxy
        byte_range = self.headers.get("range", "")
        kind, chances, changed = proxy.draw(self.command, self.path, byte_range)
        proxy.closing.wait(faults.latency)
        if changed and self.headers.get("if-match"):
            return self.answer(412, [], b"", None, chances)
        if kind in ("busy", "slow_down"):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            return self.answer(503, [], SLOW_DOWN if kind == "slow_down" else b"", kind, chances)
        status, headers, content = self.ask({"range"} if kind == "whole" and "authorization" not in self.headers else ())
        if changed:
            headers = [(name, value) for name, value in headers if name.lower() != "etag"] + [("etag", '"another"')]
            content = bytes(len(content))
        self.answer(status, headers, content, kind, chances)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request

    def answer(self, status, headers, content, kind, chances):
        request_id = f"proxy-{chances.getrandbits(32):08x}"
        if kind == "flip" and content:
            bit = chances.randrange(8 * len(content))
            content = bytearray(content)
            content[bit // 8] ^= 1 << bit % 8
        # Before the bytes, so that whoever has read them finds the entry.
        self.proxy.record(Request(self.command, self.path, self.headers.get("range", ""), status, kind, len(content)))
        self.send_response(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if "x-amz-request-id" not in names:
            self.send_header("x-amz-request-id", request_id)
        if self.command == "HEAD":
            self.send_header("content-length", dict((n.lower(), v) for n, v in headers).get("content-length", "0"))
        else:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.send_body(memoryview(content), kind, chances)

    def send_body(self, content, kind, chances):
        middle = chances.randrange(len(content) + 1)
        if kind in ("stall", "reset", "cut"):
            self.send_pieces(content[:middle])
            content = content[middle:]
        if kind == "stall":
            self.proxy.closing.wait(self.proxy.faults.stall)
        if kind == "reset":
            # With nothing to linger for, closing sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD)
        if kind in ("reset", "cut"):
            self.close_connection = True
            return
        self.send_pieces(content)

    def send_pieces(self, content):
        for begin in range(0, len(content), PIECE):
            piece = content[begin:begin + PIECE]
            self.proxy.pace(len(piece))
            self.wfile.write(piece)

    def log_message(self, *_):
        pass


def range_of(text):
    """(first, last) of a header "bytes=A-B", or None."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", text)
    return match and (int(match[1]), int(match[2]) if match[2] else None)
