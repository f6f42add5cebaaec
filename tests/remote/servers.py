"""Servers on loopback for the tests of this folder. Each is a context manager that gives its address."""
import contextlib
import email.utils
import http.server
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from fault_proxy import range_of

ACCESS_KEY, SECRET_KEY = "ACCESSKEY", "SECRETKEY"
_PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", ""), "/usr/sbin"])
RCLONE, NGINX, OPENSSL = (shutil.which(name, path=_PATH) for name in ("rclone", "nginx", "openssl"))
MOTO = importlib.util.find_spec("moto") is not None
GOOGLE = importlib.util.find_spec("gcp_storage_emulator") is not None


def rclone_serves_s3():
    """Not before version 1.65."""
    if RCLONE is None:
        return False
    done = subprocess.run([RCLONE, "serve", "s3", "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "--auth-key" in done.stdout


class FileHandler(http.server.BaseHTTPRequestHandler):
    """Files, or ranges of them, with ETags and conditions. As nginx does, it forbids folders."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self):
        path = os.path.join(self.server.folder, self.path.split("?")[0].lstrip("/"))
        if not os.path.isfile(path):
            return self.send(403 if os.path.isdir(path) else 404, b"")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
            if self.headers.get("if-match", etag) != etag:
                return self.send(412, b"")
            headers = {"etag": etag, "last-modified": email.utils.formatdate(status.st_mtime, usegmt=True)}
            wanted = range_of(self.headers.get("range", ""))
            if wanted is None:
                return self.send(200, file.read(), headers)
            first, last = wanted[0], min(wanted[1] if wanted[1] is not None else status.st_size, status.st_size - 1)
            if first > last:
                return self.send(416, b"", {"content-range": f"bytes */{status.st_size}"})
            file.seek(first)
            self.send(206, file.read(last - first + 1), {**headers, "content-range": f"bytes {first}-{last}/{status.st_size}"})

    def send(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # clients that went away


@contextlib.contextmanager
def http_server(handler, tls=None, host="127.0.0.1", **attributes):
    """A server of this process whose handlers find the attributes in their `server`."""
    server = _Server((host, 0), handler)
    vars(server).update(attributes)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def plain(folder, tls=None):
    return http_server(FileHandler, tls, folder=folder)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def program(command, port, environment=None):
    """A server that is a program, from the moment it listens."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, **(environment or {})})
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise AssertionError(f"{command[0]} does not start") from None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def rclone(folder):
    """The folders in `folder` are the buckets. It checks signatures."""
    port = free_port()
    return program([RCLONE, "serve", "s3", "--config", "/dev/null", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", "--addr",
                    f"127.0.0.1:{port}", folder], port)


def moto():
    """Empty, in memory."""
    port = free_port()
    return program([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port)


def google():
    """Empty, in memory, with a bucket "bucket"."""
    port = free_port()
    return program([sys.executable, "-m", "gcp_storage_emulator", "start", "--host=127.0.0.1", f"--port={port}", "--in-memory",
                    "--default-bucket=bucket"], port)


@contextlib.contextmanager
def nginx(folder, certificate=None, key=None):
    """With a certificate, over TLS and HTTP/2."""
    port = free_port()
    secure = f"ssl http2; ssl_certificate {certificate}; ssl_certificate_key {key}" if certificate else ""
    with tempfile.TemporaryDirectory(prefix="shardkit-nginx-") as work:
        places = "".join(f"{name}_temp_path {work}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration = os.path.join(work, "nginx.conf")
        user = "user root; " if os.geteuid() == 0 else ""
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(f"{user}daemon off; pid {work}/pid; error_log {work}/error; events {{}} http {{ access_log off; {places} "
                       f"server {{ listen 127.0.0.1:{port} {secure}; root {folder}; }} }}")
        with program([NGINX, "-c", configuration, "-e", os.path.join(work, "error"), "-p", work], port) as origin:
            yield origin if certificate is None else origin.replace("http:", "https:")


class Authority:
    """A certificate authority of one test, made by openssl in `folder`: `path` is what clients trust."""

    def __init__(self, folder):
        self.folder = folder
        self.path, self._key = os.path.join(folder, "ca.pem"), os.path.join(folder, "ca.key")
        self._openssl("req", "-x509", *self._new(self._key), "-subj", "/CN=Test authority", "-out", self.path)

    def issue(self, name):
        """Certificate and key (files) for a name, such as "IP:127.0.0.1" or "DNS:elsewhere.test"."""
        stem = os.path.join(self.folder, name.replace(":", "-"))
        request, certificate, key = stem + ".csr", stem + ".pem", stem + ".key"
        extensions = stem + ".ext"
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={name}\n")
        self._openssl("req", *self._new(key), "-subj", "/CN=server", "-out", request)
        self._openssl("x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self._key, "-CAcreateserial", "-days", "2",
                      "-extfile", extensions, "-out", certificate)
        return certificate, key

    @staticmethod
    def _new(key):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]

    @staticmethod
    def _openssl(*arguments):
        subprocess.run([OPENSSL, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
